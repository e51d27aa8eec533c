package locktest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
)

// A3, A18, E8: whatever keeps renewals from being confirmed, the holder is told
// before somebody else has the lock, and not before its time. What a busy
// machine may add is ten times the margin that the deadline has.
func lossInTime(k *kit, ttl time.Duration, before func(Link), renewed bool, disturb func(Link)) {
	k.Helper()
	lossBetween(k, ttl, before, renewed, 0, disturb)
}

// lossBetween allows a loss that no deadline foretells to be noticed, as late as
// that and as early as may be.
func lossBetween(k *kit, ttl time.Duration, before func(Link), renewed bool, noticed time.Duration, disturb func(Link)) {
	noise := k.b.TTL/10 + 20*time.Millisecond + noticed
	l, link := k.via(fencelock.TTL(ttl))
	other, names := k.locker(), k.list(50)
	before(link)
	locks := k.all(l, names)
	deadline := make(map[string]time.Time)
	for name, lock := range locks { // a renewal may only make it later
		deadline[name] = time.Now().Add(lock.Valid())
	}
	if renewed {
		k.until("all are renewed", ttl+soon, func() bool {
			for name, lock := range locks {
				if time.Now().Add(lock.Valid()).Before(deadline[name].Add(ttl / 10)) {
					return false
				}
			}
			return true
		})
	}
	disturb(link)
	k.each(names, len(names), func(name string) error {
		lock, told := locks[name], make(chan time.Time, 1)
		go func() {
			<-lock.Lost()
			told <- time.Now()
		}()
		next, err := k.get(other, name)
		if err != nil {
			return err
		}
		granted := time.Now()
		select {
		case at := <-told:
			if late := at.Sub(granted); late > noise {
				return fmt.Errorf("the holder of %q was told %v after another had the lock", name, late)
			}
			if early := deadline[name].Sub(at); noticed == 0 && early > time.Millisecond {
				return fmt.Errorf("%q was reported lost %v before its deadline: %w", name, early, lock.Err())
			}
		case <-time.After(soon):
			return fmt.Errorf("another has %q and the holder is not told", name)
		}
		if next.Token() <= lock.Token() {
			return fmt.Errorf("the next holder of %q has token %d after %d", name, next.Token(), lock.Token())
		}
		k.lost(lock, soon)
		return nil
	})
}

func lossFrozen(k *kit)    { lossInTime(k, k.b.TTL, func(Link) {}, false, Link.Freeze) }
func lossBlackHole(k *kit) { lossInTime(k, k.b.TTL, func(Link) {}, true, Link.BlackHole) }
func lossCut(k *kit) {
	noticed := time.Duration(0)
	if k.b.Session { // the server may see the end of the connection first
		noticed = time.Second
	}
	lossBetween(k, k.b.TTL, func(Link) {}, false, noticed, Link.Cut)
}
func lossSlow(k *kit) {
	lossInTime(k, k.b.TTL, func(Link) {}, false, func(l Link) { l.Delay(2 * k.b.TTL) })
}

// The time to live counts from the sending of what is confirmed, not from its
// answer.
func lossAfterLateGrant(k *kit) {
	lossInTime(k, 3*k.b.TTL, func(l Link) { l.Delay(k.b.TTL * 35 / 100) }, false, Link.BlackHole)
}

func lossAfterLateRenewal(k *kit) {
	lossInTime(k, 3*k.b.TTL, func(l Link) { l.Delay(k.b.TTL * 35 / 100) }, true, Link.BlackHole)
}

// A renewal that fails is repeated until the deadline.
func shortOutage(k *kit) {
	var locks []fencelock.Lock
	outages := []func(Link){Link.Freeze, Link.Cut}
	if k.b.Session {
		outages = outages[:1] // the other ends the hold
	}
	for _, disturb := range outages {
		l, link := k.via(fencelock.TTL(2 * k.b.TTL))
		locks = append(locks, k.acquire(l, k.name()))
		disturb(link)
		time.AfterFunc(k.b.TTL*3/4, link.Heal)
	}
	k.held(locks[0], 4*k.b.TTL)
	for _, lock := range locks {
		k.held(lock, 0)
		k.release(lock)
	}
}

// A4: a renewal creates nothing after the record was deleted.
func renewalCreatesNothing(k *kit) {
	k.needsDelete()
	l, other, name := k.locker(k.short()), k.locker(), k.name()
	lock := k.acquire(l, name)
	k.b.Delete(k, name)
	if reason := k.lost(lock, k.b.TTL+soon).Reason; reason == fencelock.Expired || reason == fencelock.Closed {
		k.Errorf("the reason is %q", reason)
	}
	next, err := other.TryAcquire(k.ctx(long), name)
	if err != nil {
		k.Fatalf("after the loss: %v", err)
	}
	if err := lock.Release(k.ctx(long)); !errors.Is(err, fencelock.ErrLost) {
		k.Errorf("Release of a lost lock: %v", err)
	}
	k.held(next, k.b.TTL)
	if next.Token() <= lock.Token() {
		k.Errorf("token %d after %d", next.Token(), lock.Token())
	}
	k.release(next)
}

// A4, A5: a renewal, and a release, of one who has lost the lock without
// knowing leaves the next holder alone.
func renewalSparesNext(k *kit) {
	k.needsDelete()
	l, other, third := k.locker(k.short()), k.locker(), k.locker()
	for _, early := range []bool{false, true} {
		name := k.name()
		lock := k.acquire(l, name)
		k.b.Delete(k, name)
		next := k.acquire(other, name)
		if !early {
			k.lost(lock, k.b.TTL+soon)
		}
		if err := lock.Release(k.ctx(long)); !errors.Is(err, fencelock.ErrLost) {
			k.Errorf("Release of a lost lock: %v", err)
		}
		k.held(next, 2*k.b.TTL)
		k.taken(third, name)
		k.release(next)
	}
}

// A12: a lock that was lost and acquired again is renewed again.
func renewedAfterLoss(k *kit) {
	k.needsDelete()
	l, name := k.locker(k.short()), k.name()
	first := k.acquire(l, name)
	k.b.Delete(k, name)
	k.lost(first, k.b.TTL+soon)
	again := k.acquire(l, name)
	if again.Token() <= first.Token() {
		k.Errorf("token %d after %d", again.Token(), first.Token())
	}
	k.held(again, 5*k.b.TTL)
	k.taken(k.locker(), name)
	k.release(again)
}

// A11: locks are lost one by one.
func othersStayHeld(k *kit) {
	k.needsDelete()
	l, names := k.locker(k.short()), k.list(20)
	var locks []fencelock.Lock
	for _, name := range names {
		locks = append(locks, k.acquire(l, name))
	}
	k.b.Delete(k, names[7])
	k.lost(locks[7], k.b.TTL+soon)
	k.held(locks[0], 3*k.b.TTL)
	other := k.locker()
	for i, lock := range locks {
		if i != 7 {
			k.held(lock, 0)
			k.taken(other, names[i])
			k.release(lock)
		}
	}
}

// A11: a renewal that gets no answer leaves the others to be renewed.
func stuckRenewal(k *kit) {
	l, stuck, name := k.locker(k.short()), k.name(), k.name()
	first, second := k.acquire(l, stuck), k.acquire(l, name)
	release := k.b.Stick(k, stuck)
	k.Cleanup(release)
	k.lost(first, 2*k.b.TTL+soon)
	k.held(second, 3*k.b.TTL)
	k.release(second)
}

// A16: the ctx of Acquire bounds the wait, not the hold.
func outlivesContext(k *kit) {
	l, name := k.locker(k.short()), k.name()
	ctx, cancel := context.WithCancel(context.Background())
	lock, err := l.Acquire(ctx, name)
	cancel()
	if err != nil {
		k.Fatal(err)
	}
	k.held(lock, 5*k.b.TTL)
	k.taken(k.locker(), name)
	k.release(lock)
}

func (k *kit) needsDelete() {
	if k.b.Delete == nil {
		k.Skip("NOT TESTED: the backend gives no Delete")
	}
}
