package locktest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
)

// long is how long the suite waits for what should come at once.
const long = 20 * time.Second

// soon is the time in which a lock must be free again or a call must return
// where the promise is a second or less; machines are noisy.
const soon = 5 * time.Second

// unique is put into every name, so that a suite run twice on one server does
// not meet itself.
var (
	unique = rand.Text()[:8]
	names  atomic.Int64
)

// newName returns a name that nobody else uses.
func newName(t testing.TB) string {
	return fmt.Sprintf("%s/%s/%d", unique, t.Name(), names.Add(1))
}

// calm is a TTL that no case lives to see expire: what is free before then has
// been released or cleaned up.
const calm = time.Minute

// kit is what a case works with.
type kit struct {
	*attempt
	b Backend
}

func (k *kit) name() string { return newName(k) }

// list returns n names, or fewer where each hold is a session of its own, which
// is dear.
func (k *kit) list(n int) []string {
	if k.b.Session {
		n = min(n, 10)
	}
	return k.names(n)
}

func (k *kit) names(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = k.name()
	}
	return names
}

// rounds returns a tenth of n with -short, else a quarter, with
// FENCELOCK_TEST_SOAK=1 all.
func (k *kit) rounds(n int) int {
	switch {
	case testing.Short():
		return max(n/10, 1)
	case soak():
		return n
	}
	return max(n/4, 1)
}

// soak says that a run is to find what is rare, however long it lasts.
func soak() bool { return os.Getenv("FENCELOCK_TEST_SOAK") == "1" }

func (k *kit) locker(opts ...fencelock.Option) Locker {
	k.Helper()
	return k.closing(k.b.New(k, k.options(opts)...))
}

// options puts calm before opts: only what waits for an expiry or a renewal
// takes a short TTL, which a busy machine may miss.
func (k *kit) options(opts []fencelock.Option) []fencelock.Option {
	return append([]fencelock.Option{fencelock.TTL(calm)}, opts...)
}

func (k *kit) short() fencelock.Option { return fencelock.TTL(k.b.TTL) }

// closing closes l at the end of the case.
func (k *kit) closing(l Locker) Locker {
	k.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), long)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			k.Errorf("Close: %v", err)
		}
	})
	return l
}

// via returns a Locker with a link, which is healed before the Locker is closed.
func (k *kit) via(opts ...fencelock.Option) (Locker, Link) {
	k.Helper()
	if k.b.Via == nil {
		k.Skip("NOT TESTED: the backend gives no Via")
	}
	l, link := k.b.Via(k, k.options(opts)...)
	k.closing(l)
	k.Cleanup(link.Heal)
	return l, link
}

// ctx ends after d, and with the case.
func (k *kit) ctx(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	k.Cleanup(cancel)
	return ctx
}

// acquire gets name or ends the case. It is for the case's own goroutine.
func (k *kit) acquire(l Locker, name string, opts ...fencelock.Option) fencelock.Lock {
	k.Helper()
	lock, err := k.get(l, name, opts...)
	if err != nil {
		k.Fatal(err)
	}
	return lock
}

// get acquires and checks what is true of every lock. Any goroutine may call it.
func (k *kit) get(l Locker, name string, opts ...fencelock.Option) (fencelock.Lock, error) {
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	lock, err := l.Acquire(ctx, name, opts...)
	if err != nil {
		return nil, fmt.Errorf("Acquire(%.60q): %w", name, err)
	}
	if valid := lock.Valid(); valid <= 0 && lock.Err() == nil {
		return nil, fmt.Errorf("Acquire(%.60q) returned a lock that is valid for %v and has no Err", name, valid)
	}
	if lock.Token() <= 0 {
		return nil, fmt.Errorf("Acquire(%.60q) returned the token %d", name, lock.Token())
	}
	return lock, nil
}

// all gets all names at the same time.
func (k *kit) all(l Locker, names []string) map[string]fencelock.Lock {
	k.Helper()
	var mu sync.Mutex
	locks := make(map[string]fencelock.Lock)
	k.each(names, 64, func(name string) error {
		lock, err := k.get(l, name)
		mu.Lock()
		defer mu.Unlock()
		locks[name] = lock
		return err
	})
	return locks
}

func (k *kit) release(lock fencelock.Lock) {
	k.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	if err := lock.Release(ctx); err != nil {
		k.Errorf("Release of %.60q: %v", lock.Name(), err)
	}
}

// free checks that another Locker gets name within d, and gives it back.
func (k *kit) free(other Locker, name string, d time.Duration) {
	k.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	start := time.Now()
	lock, err := other.Acquire(ctx, name)
	if err != nil {
		k.Fatalf("%.60q is not free after %v: %v", name, time.Since(start), err)
	}
	k.release(lock)
}

// taken checks that name is held by somebody else than l.
func (k *kit) taken(l Locker, name string) {
	k.Helper()
	lock, err := l.TryAcquire(k.ctx(long), name)
	if err == nil {
		_ = lock.Release(k.ctx(long))
		k.Fatalf("%.60q could be acquired while another holds it", name)
	}
	if !errors.Is(err, fencelock.ErrHeld) {
		k.Fatalf("TryAcquire(%.60q) while another holds it: %v", name, err)
	}
}

// held checks that lock is held and goes on to be for d.
func (k *kit) held(lock fencelock.Lock, d time.Duration) {
	k.Helper()
	select {
	case <-lock.Lost():
		k.Fatalf("%.60q was lost: %v", lock.Name(), lock.Err())
	case <-time.After(d):
	}
	if err := lock.Err(); err != nil {
		k.Fatalf("Err of a lock that is held: %v", err)
	}
}

// lost waits for the loss and returns its error.
func (k *kit) lost(lock fencelock.Lock, d time.Duration) *fencelock.LostError {
	k.Helper()
	select {
	case <-lock.Lost():
	case <-time.After(d):
	}
	select {
	case <-lock.Lost():
	default:
		k.Fatalf("the loss of %.60q was not told within %v", lock.Name(), d)
	}
	var lost *fencelock.LostError
	err := lock.Err()
	if !errors.As(err, &lost) || !errors.Is(err, fencelock.ErrLost) {
		k.Fatalf("Err of a lost lock: %v, want a *LostError that matches ErrLost", err)
	}
	if lost.Name != lock.Name() || lost.Token != lock.Token() || lost.Reason == "" {
		k.Errorf("LostError is %+v, want the name %q, the token %d and a reason", *lost, lock.Name(), lock.Token())
	}
	if v := lock.Valid(); v != 0 {
		k.Errorf("a lost lock is valid for %v", v)
	}
	return lost
}

// until polls for a state.
func (k *kit) until(what string, d time.Duration, is func() bool) {
	k.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(d); !is(); <-tick.C {
		if time.Now().After(end) {
			k.Fatalf("not within %v: %s", d, what)
		}
	}
}

// each runs f for all names at the same time, at most width of them. An error
// ends the case.
func (k *kit) each(names []string, width int, f func(name string) error) {
	k.Helper()
	if err := each(names, width, f); err != nil {
		k.Fatal(err)
	}
}

func each(names []string, width int, f func(name string) error) error {
	var all sync.WaitGroup
	errs := make([]error, len(names))
	slots := make(chan struct{}, width)
	for i, name := range names {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			errs[i] = f(name)
		})
	}
	all.Wait()
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if n := len(errs); n > 3 {
		errs = append(errs[:3], fmt.Errorf("and %d more", n-3))
	}
	return errors.Join(errs...)
}

// retry fails if f fails three times. It is for what a machine that is busy
// with other work may spoil once, such as being told within milliseconds.
func (k *kit) retry(f func() error) {
	k.Helper()
	for try := 1; ; try++ {
		err := f()
		switch {
		case err == nil:
			return
		case try == 3:
			k.Fatalf("three times: %v", err)
		}
		k.Logf("once more, since: %v", err)
	}
}
