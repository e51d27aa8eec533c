package locktest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
)

func handle(k *kit) {
	l, name := k.locker(), k.name()
	lock := k.acquire(l, name)
	if lock.Name() != name {
		k.Errorf("Name is %q, want %q", lock.Name(), name)
	}
	if err := lock.Err(); err != nil {
		k.Errorf("Err while held: %v", err)
	}
	token := lock.Token()
	k.release(lock)
	var lost *fencelock.LostError
	if err := lock.Err(); !errors.As(err, &lost) || lost.Reason != fencelock.Released {
		k.Errorf("Err after Release: %v, want a *LostError with reason Released", err)
	}
	select {
	case <-lock.Lost():
		k.Error("Release closed Lost")
	default:
	}
	if v := lock.Valid(); v != 0 {
		k.Errorf("Valid after Release: %v", v)
	}
	if lock.Token() != token {
		k.Errorf("Token after Release: %d, was %d", lock.Token(), token)
	}
	k.free(k.locker(), name, soon)
}

// A9: held is told apart from everything else, and by whom does not matter.
func heldByAnother(k *kit) {
	l, other, name := k.locker(), k.locker(), k.name()
	lock := k.acquire(l, name)
	for who, asker := range map[string]Locker{"another process": other, "the same process": l} {
		ctx, cancel := context.WithTimeout(context.Background(), long)
		_, err := asker.TryAcquire(ctx, name)
		cancel()
		var held *fencelock.HeldError
		if !errors.As(err, &held) || !errors.Is(err, fencelock.ErrHeld) {
			k.Fatalf("TryAcquire by %s: %v, want a *HeldError", who, err)
		}
		if held.Name != name || held.For < 0 || held.For > 2*calm || held.Cause != nil {
			k.Errorf("TryAcquire by %s: %+v, want the name, at most the TTL, and no cause", who, *held)
		}
	}
	if err := lock.Err(); err != nil {
		k.Errorf("the holder is disturbed: %v", err)
	}
	k.release(lock)
	for _, asker := range []Locker{l, other} {
		lock, err := asker.TryAcquire(k.ctx(long), name)
		if err != nil {
			k.Fatalf("TryAcquire of a free lock: %v", err)
		}
		k.release(lock)
	}
}

func waitOption(k *kit) {
	const bound = 500 * time.Millisecond
	l, other, patient, name := k.locker(), k.locker(), k.locker(fencelock.Wait(bound)), k.name()
	lock := k.acquire(l, name)
	for _, l := range []Locker{other, patient} { // connected
		k.taken(l, name)
	}
	ctx := k.ctx(long)
	ended, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	var all sync.WaitGroup
	for what, wait := range map[string]func() error{
		"Wait":    func() error { _, err := other.Acquire(ctx, name, fencelock.Wait(bound)); return err },
		"Wait(0)": func() error { _, err := k.locker().Acquire(ctx, name, fencelock.Wait(0)); return err },
		"Wait behind a goroutine of the same process": func() error {
			_, err := l.Acquire(ctx, name, fencelock.Wait(bound))
			return err
		},
		"Wait of New":                      func() error { _, err := patient.Acquire(ctx, name); return err },
		"Wait of New beside other options": func() error { _, err := patient.Acquire(ctx, name, fencelock.Passes(0)); return err },
	} {
		all.Go(func() {
			err := wait()
			if !errors.Is(err, fencelock.ErrHeld) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
				k.Errorf("%s: %v, want ErrHeld and no ctx error", what, err)
			}
		})
	}
	_, err := other.Acquire(ended, name)
	if !errors.Is(err, fencelock.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
		k.Errorf("a wait that ctx ended: %v, want ErrHeld and the ctx's error", err)
	}
	all.Wait()
	k.release(lock)
	k.free(l, name, soon)
}

func doneContext(k *kit) {
	l, name := k.locker(), k.name()
	done, cancel := context.WithCancel(context.Background())
	cancel()
	for what, acquire := range map[string]acquire{
		"Acquire": l.Acquire, "TryAcquire": l.TryAcquire,
	} {
		lock, err := acquire(done, name)
		if err == nil || lock != nil || !errors.Is(err, context.Canceled) || errors.Is(err, fencelock.ErrHeld) {
			k.Errorf("%s with a done ctx: %v, %v", what, lock, err)
		}
	}
	k.free(k.locker(), name, soon)
}

// A15: no name blocks another one.
func namesAreIndependent(k *kit) {
	l, other := k.locker(), k.locker()
	base := k.name()
	names := []string{
		"a", "ab", "a/b", "a//b", "a/", "/a", " a", "a ", "A", "ä", "a\u0308", "😀", `'a"`, "100%", "%61", "a\x00", "a\x00b",
		"{a}", "a{b}c", "{}a", "}a{", "{{a}}", "a:b", "a*", "a?", "[a]", "\\a", "a\nb", "\xff\xfe", ".", "..", "a/../b", "a;b", "$a", "-a",
		strings.Repeat("n", 5000), strings.Repeat("n", 4999) + "m",
	}
	var locks []fencelock.Lock
	for _, n := range names {
		lock, err := l.TryAcquire(k.ctx(long), base+n)
		if err != nil {
			k.Fatalf("TryAcquire(%.60q): %v", n, err)
		}
		locks = append(locks, lock)
	}
	bare := strings.Repeat("x", 3) + unique // and without anything before it
	for _, n := range []string{bare, bare + "/", "/" + bare, "{" + bare + "}"} {
		lock, err := l.TryAcquire(k.ctx(long), n)
		if err != nil {
			k.Fatalf("TryAcquire(%.60q): %v", n, err)
		}
		locks = append(locks, lock)
	}
	for _, lock := range locks {
		k.taken(other, lock.Name())
	}
	for _, lock := range locks {
		k.release(lock)
	}
}

func prefixesAreIndependent(k *kit) {
	name := k.name()
	l, same, other := k.locker(fencelock.Prefix("p1/")), k.locker(fencelock.Prefix("p1/")), k.locker(fencelock.Prefix("p2/"))
	lock := k.acquire(l, name)
	k.taken(same, name)
	second, err := other.TryAcquire(k.ctx(long), name)
	if err != nil {
		k.Fatalf("with another prefix: %v", err)
	}
	k.release(second)
	k.release(lock)
}

// servedInOrder starts waiters one after the other. A goroutine may be late
// once, so a few may have changed places.
func servedInOrder(k *kit) {
	const waiters = 100
	l, name := k.locker(), k.name()
	lock := k.acquire(l, name)
	var order []int // guarded by the lock under test, and a real one
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range waiters {
		all.Go(func() {
			lock, err := k.get(l, name)
			if err != nil {
				k.Error(err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			k.release(lock)
		})
		<-time.After(time.Millisecond)
	}
	k.release(lock)
	all.Wait()
	swapped := 0
	for i, a := range order {
		for _, b := range order[i:] {
			if b < a {
				swapped++
			}
		}
	}
	if len(order) != waiters || swapped > waiters*waiters/40 { // at random: a quarter of the square
		k.Errorf("%d waiters were served in the order %v", len(order), order)
	}
}

// badRequests go through a link on which a sent request would hang, so that an
// answer shows that nothing was sent.
func badRequests(k *kit) {
	l := k.locker()
	if k.b.Via != nil {
		var link Link
		l, link = k.via()
		k.release(k.acquire(l, k.name()))
		link.BlackHole()
		defer link.Heal()
	}
	ctx := k.ctx(long)
	bad := map[string]struct {
		name string
		opt  fencelock.Option
	}{
		"an empty name":          {"", fencelock.Passes(1)},
		"a name of 8 KiB + 1":    {strings.Repeat("x", 8<<10+1), fencelock.Passes(1)},
		"a TTL of 9 ms":          {"x", fencelock.TTL(9 * time.Millisecond)},
		"a negative TTL":         {"x", fencelock.TTL(-time.Second)},
		"a negative Wait":        {"x", fencelock.Wait(-1)},
		"a negative Backoff":     {"x", fencelock.Backoff(-1, time.Second)},
		"a Backoff of max < min": {"x", fencelock.Backoff(time.Second, time.Millisecond)},
		"a negative MinToken":    {"x", fencelock.MinToken(-1)},
		"negative Passes":        {"x", fencelock.Passes(-1)},
		"Prefix in a call":       {"x", fencelock.Prefix("other/")},
		"Observe in a call":      {"x", fencelock.Observe(func(context.Context, fencelock.Event) {})},
	}
	for what, b := range bad {
		for _, acquire := range []acquire{l.Acquire, l.TryAcquire} {
			lock, err := acquire(ctx, b.name, b.opt)
			switch {
			case err == nil || lock != nil:
				k.Fatalf("%s was accepted", what)
			case ctx.Err() != nil:
				k.Fatalf("%s: something was sent: %v", what, err)
			case errors.Is(err, fencelock.ErrHeld), errors.Is(err, fencelock.ErrLost), errors.Is(err, context.DeadlineExceeded):
				k.Errorf("%s: %v", what, err)
			}
		}
	}
}

// A9: what is not "held" never matches ErrHeld.
func errorsTellApart(k *kit) {
	apart := func(what string, err error) {
		k.Helper()
		switch {
		case err == nil:
			k.Errorf("%s: no error", what)
		case errors.Is(err, fencelock.ErrHeld), errors.Is(err, fencelock.ErrLost), errors.Is(err, fencelock.ErrStale), errors.Is(err, fencelock.ErrClosed):
			k.Errorf("%s: %v matches a condition that it is not", what, err)
		}
	}
	ask := func(what string, l Locker) {
		k.Helper()
		name := k.name()
		_, err := l.TryAcquire(k.ctx(2*time.Second), name)
		apart("TryAcquire: "+what, err)
		if err != nil && !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) {
			k.Errorf("TryAcquire: %s: %v does not name %q", what, err, name)
		}
		_, err = l.Acquire(k.ctx(2*time.Second), name)
		apart("Acquire: "+what, err)
	}
	tested := false
	if k.b.Refused != nil {
		ask("connection refused", k.closing(k.b.Refused(k, k.short())))
		tested = true
	}
	if k.b.Broken != nil {
		ask("the server refuses", k.closing(k.b.Broken(k, k.short())))
		tested = true
	}
	if k.b.Via != nil {
		l, link := k.via(k.short())
		link.BlackHole()
		ask("the server is silent", l)
		tested = true
	}
	if !tested {
		k.Skip("NOT TESTED: the backend gives none of Refused, Broken, Via")
	}
}
