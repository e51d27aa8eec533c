package locktest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
)

// loss is a way to lose locks.
type loss struct {
	disturb func(Link)
	late    bool          // answers are late before, too
	renewed bool          // it happens after a renewal, not after the grant
	noticed time.Duration // no deadline foretells it: told that late, and as early as may be
}

// A3, A18, E8: whatever keeps renewals from being confirmed, the holder is told
// before somebody else has the lock, and not before its time. What a busy
// machine may add is ten times the margin that the deadline has.
func (how loss) isToldInTime(k *kit) {
	noise := k.b.TTL/10 + 20*time.Millisecond + how.noticed
	ttl, many := k.b.TTL, 50
	if how.late { // each connection is late with its answers one after the other
		ttl, many = 2*k.b.TTL, 8
	}
	l, link := k.via(fencelock.TTL(ttl))
	other, names := k.locker(), k.list(many)
	if how.late {
		link.Delay(k.b.TTL * 35 / 100)
	}
	locks := k.all(l, names)
	deadline := make(map[string]time.Time)
	for name, lock := range locks { // a renewal may only make it later
		deadline[name] = time.Now().Add(lock.Valid())
	}
	if how.renewed {
		k.until("all are renewed", ttl+soon, func() bool {
			for name, lock := range locks {
				if time.Now().Add(lock.Valid()).Before(deadline[name].Add(ttl / 10)) {
					return false
				}
			}
			return true
		})
	}
	how.disturb(link)
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
			if early := deadline[name].Sub(at); how.noticed == 0 && early > time.Millisecond {
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

func lossFrozen(k *kit)    { loss{disturb: Link.Freeze}.isToldInTime(k) }
func lossBlackHole(k *kit) { loss{disturb: Link.BlackHole, renewed: true}.isToldInTime(k) }
func lossSlow(k *kit) {
	loss{disturb: func(l Link) { l.Delay(2 * k.b.TTL) }}.isToldInTime(k)
}

func lossCut(k *kit) {
	how := loss{disturb: Link.Cut}
	if k.b.Session { // the server may see the end of the connection first
		how.noticed = time.Second
	}
	how.isToldInTime(k)
}

// The time to live counts from the sending of what is confirmed, not from its
// answer.
func lossAfterLateGrant(k *kit) {
	loss{disturb: Link.BlackHole, late: true}.isToldInTime(k)
}

func lossAfterLateRenewal(k *kit) {
	loss{disturb: Link.BlackHole, late: true, renewed: true}.isToldInTime(k)
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
	k.held(locks[0], 3*k.b.TTL)
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
	var early, late [2]fencelock.Lock // the deposed holder's and the next one's
	for _, locks := range []*[2]fencelock.Lock{&early, &late} {
		name := k.name()
		locks[0] = k.acquire(l, name)
		k.b.Delete(k, name)
		locks[1] = k.acquire(other, name)
		if locks == &late {
			k.lost(locks[0], k.b.TTL+soon)
		}
		if err := locks[0].Release(k.ctx(long)); !errors.Is(err, fencelock.ErrLost) {
			k.Errorf("Release of a lost lock: %v", err)
		}
	}
	k.held(early[1], 2*k.b.TTL)
	for _, locks := range [][2]fencelock.Lock{early, late} {
		k.held(locks[1], 0)
		k.taken(third, locks[1].Name())
		k.release(locks[1])
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
	k.held(again, 3*k.b.TTL)
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
	k.held(locks[0], 2*k.b.TTL)
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
	k.held(second, 2*k.b.TTL)
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
	k.held(lock, 3*k.b.TTL)
	k.taken(k.locker(), name)
	k.release(lock)
}

func (k *kit) needsDelete() {
	if k.b.Delete == nil {
		k.Skip("NOT TESTED: the backend gives no Delete")
	}
}
