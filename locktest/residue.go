package locktest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
)

// empty waits until the server keeps nothing for anybody.
func (k *kit) empty(when string) {
	k.Helper()
	if k.b.Residue == nil {
		return
	}
	var left []string
	defer func() {
		if k.Failed() {
			k.Logf("%s, the server keeps %q", when, left)
		}
	}()
	k.until("the server keeps nothing "+when, soon, func() bool {
		left = k.b.Residue(k)
		return len(left) == 0
	})
}

// A cancelled, timed-out, refused or failed acquire leaves nothing.
func nothingLeft(k *kit) {
	if k.b.Residue == nil {
		k.Skip("NOT TESTED: the backend gives no Residue")
	}
	// Within soon all are idle, and nothing that was forgotten has expired.
	ttl := fencelock.TTL(2 * soon)
	holder, l, names := k.locker(ttl), k.locker(ttl), k.list(20)
	k.empty("before")
	locks := k.all(holder, names)
	if len(k.b.Residue(k)) == 0 {
		k.Fatal("the backend's Residue does not see a lock that is held")
	}
	k.each(names, 20, func(name string) error {
		for range 5 {
			if _, err := l.TryAcquire(context.Background(), name); !errors.Is(err, fencelock.ErrHeld) {
				return fmt.Errorf("after TryAcquire: %w", err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
			_, err := l.Acquire(ctx, name)
			cancel()
			if err == nil {
				return errors.New("two holders")
			}
			// A busy server may not even have refused by then.
			_, err = l.Acquire(context.Background(), name, fencelock.Wait(20*time.Millisecond))
			if !errors.Is(err, fencelock.ErrHeld) && !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("after Wait: %w", err)
			}
		}
		return nil
	})
	for _, lock := range locks {
		k.release(lock)
	}
	if k.b.Via == nil {
		k.empty("after refused and abandoned waits")
		return
	}
	var all sync.WaitGroup
	for _, disturb := range []func(Link){Link.Freeze, Link.BlackHole, Link.Cut} {
		far, link := k.via(ttl)
		k.release(k.acquire(far, k.name()))
		disturb(link)
		all.Go(func() {
			err := each(k.list(20), 20, func(name string) error {
				ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
				defer cancel()
				if _, err := far.Acquire(ctx, name); err == nil {
					return errors.New("acquired from a server that is gone")
				}
				return nil
			})
			if err != nil {
				k.Error(err)
			}
			link.Heal()
		})
	}
	all.Wait()
	k.empty("after acquires that failed, or were refused or abandoned")
}

// A21: a Locker that nobody uses keeps nothing, here or at the server, and
// works again afterwards.
func idleCostsNothing(k *kit) {
	l, other := k.locker(k.short()), k.locker(k.short())
	use := func() {
		names := k.list(20)
		locks := k.all(l, names)
		var waits sync.WaitGroup
		for _, name := range names {
			waits.Go(func() {
				if lock, err := k.get(other, name); err != nil {
					k.Error(err)
				} else {
					_ = lock.Release(context.Background())
				}
			})
		}
		k.held(locks[names[0]], k.b.TTL/2)
		for _, lock := range locks {
			k.release(lock)
		}
		waits.Wait()
	}
	before := runtime.NumGoroutine()
	for range 2 {
		use()
		k.empty("when all Lockers are idle")
		now := 0
		k.until("no goroutine is left", k.b.TTL+soon, func() bool {
			now = runtime.NumGoroutine()
			return now <= before+4 // a client may keep some per connection, not per lock
		})
	}
}

// A20: ten thousand names at once, and none of them left.
func manyNames(k *kit) {
	l, most, each := k.locker(), 10_000, 0
	if k.b.Session {
		most, each = 1000, 4 // a connection, and what watches it
	}
	names := k.names(k.rounds(most))
	locks := k.all(l, names)
	for _, lock := range locks {
		if err := lock.Err(); err != nil {
			k.Fatal(err)
		}
	}
	goroutines := runtime.NumGoroutine()
	if goroutines > each*len(names)+len(names)/10+200 {
		k.Errorf("%d goroutines for %d locks", goroutines, len(names))
	}
	k.each(names, 64, func(name string) error { return locks[name].Release(context.Background()) })
	if err := l.Close(k.ctx(long)); err != nil {
		k.Errorf("Close: %v", err)
	}
	k.empty("after all have been released")
}
