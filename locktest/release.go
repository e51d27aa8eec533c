package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/fencelock/fencelock"
)

// A2: a Release on an ended ctx still releases.
func releaseDone(k *kit) {
	l, other, name := k.locker(), k.locker(), k.name()
	lock := k.acquire(l, name)
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if err := lock.Release(done); err != nil && !errors.Is(err, context.Canceled) {
		k.Errorf("Release with a done ctx: %v", err)
	}
	if err := lock.Release(k.ctx(long)); err != nil {
		k.Errorf("Release after that: %v", err)
	}
	k.free(other, name, soon)
}

func releaseTwice(k *kit) {
	l, name := k.locker(), k.name()
	lock := k.acquire(l, name)
	k.release(lock)
	next := k.acquire(l, name)
	k.release(lock) // the same answer, and no harm to the next holder
	k.taken(k.locker(), name)
	if err := next.Err(); err != nil {
		k.Errorf("a second Release of the first lock ended the second: %v", err)
	}
	k.release(next)
}

// A2: a Release that its ctx cut short, or that the server did not answer, goes
// on and can be repeated.
func releaseCutShort(k *kit) {
	l, link := k.via()
	other := k.locker()
	outages := map[string]func(){"frozen": link.Freeze, "a black hole": link.BlackHole}
	if !k.b.Session { // else it ends the hold
		outages["cut"] = link.Cut
	}
	for what, disturb := range outages {
		name := k.name()
		lock := k.acquire(l, name)
		disturb()
		start := time.Now()
		err := lock.Release(k.ctx(100 * time.Millisecond))
		if err == nil || errors.Is(err, fencelock.ErrLost) || errors.Is(err, fencelock.ErrHeld) {
			k.Errorf("Release on a link that is %s: %v, want its ctx's error or the client's", what, err)
		}
		if d := time.Since(start); d > time.Second+100*time.Millisecond {
			k.Errorf("Release returned %v after a ctx of 100 ms", d)
		}
		k.taken(other, name)
		link.Heal()
		if err := lock.Release(k.ctx(long)); err != nil {
			k.Errorf("Release repeated after the link was %s: %v", what, err)
		}
		k.free(other, name, soon)
	}
}

// A5: the Release of one who has lost the lock leaves the next holder alone.
func lateRelease(k *kit) {
	l, link := k.via(k.short())
	other, third, name := k.locker(), k.locker(), k.name()
	lock := k.acquire(l, name)
	link.Freeze()
	next := k.acquire(other, name)
	k.lost(lock, long)
	link.Heal()
	for range 2 {
		if err := lock.Release(k.ctx(long)); !errors.Is(err, fencelock.ErrLost) {
			k.Errorf("Release of a lost lock: %v, want ErrLost", err)
		}
	}
	k.taken(third, name)
	k.held(next, 2*k.b.TTL)
	k.taken(third, name)
	k.release(next)
	if next.Token() <= lock.Token() {
		k.Errorf("the next holder has token %d after %d", next.Token(), lock.Token())
	}
}

// A10: when the locks are released, nothing renews them.
func noRenewalAfterRelease(k *kit) {
	if k.b.Commands == nil {
		k.Skip("NOT TESTED: the backend gives no Commands")
	}
	ttl := 3 * k.b.TTL // no longer, so that a renewal is due while we watch
	l, names := k.locker(fencelock.TTL(ttl)), k.list(20)
	k.each(names, len(names), func(name string) error {
		for range k.rounds(500) {
			lock, err := k.get(l, name)
			if err != nil {
				return err
			}
			if err := lock.Release(context.Background()); err != nil {
				return err
			}
		}
		return nil
	})
	last, since := k.b.Commands(k), time.Now()
	k.until("no command any more", soon, func() bool { // such as a clean-up
		if n := k.b.Commands(k); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > ttl/30
	})
	<-time.After(ttl / 2) // a renewal would have been sent by now
	if n := k.b.Commands(k); n != last {
		k.Errorf("%d commands after all locks have been released", n-last)
	}
}
