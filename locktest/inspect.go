package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/fencelock/fencelock"
)

// status asks l, or skips the case.
func (k *kit) status(l Locker, name string) fencelock.Status {
	k.Helper()
	i, ok := l.(fencelock.Inspector)
	if !ok {
		k.Skip("NOT TESTED: the backend's Locker is no fencelock.Inspector")
	}
	s, err := i.Status(k.ctx(long), name)
	if err != nil {
		k.Fatalf("Status: %v", err)
	}
	return s
}

// breaks ends the hold that begins with t, or skips the case.
func (k *kit) breaks(l Locker, name string, t fencelock.Token) {
	k.Helper()
	b, ok := l.(fencelock.Breaker)
	if !ok {
		k.Skip("NOT TESTED: the backend's Locker is no fencelock.Breaker")
	}
	if err := b.Break(k.ctx(long), name, t); err != nil {
		k.Fatalf("Break: %v", err)
	}
}

// Status tells the truth to others, and takes nothing.
func statusTells(k *kit) {
	l, other, name := k.locker(), k.locker(), k.name()
	if s := k.status(other, name); s.Held || s.For != 0 || !s.Since.IsZero() || s.Waiters > 0 {
		k.Errorf("the Status of a new name is %+v", s)
	}
	before := time.Now()
	lock := k.acquire(l, name)
	s := k.status(other, name)
	if !s.Held || s.Token <= 0 || s.Token > lock.Token() || s.For < 0 || s.For > calm || s.Waiters > 0 {
		k.Errorf("the Status of a lock that is held with token %d for %v is %+v", lock.Token(), calm, s)
	}
	// The server's clock is this machine's, in tests.
	if !s.Since.IsZero() && (s.Since.Before(before.Add(-soon)) || s.Since.After(time.Now().Add(soon))) {
		k.Errorf("it is held since %v, and was acquired after %v", s.Since, before)
	}
	if s.Waiters == 0 {
		waits := k.locker()
		ctx, cancel := context.WithCancel(k.ctx(long))
		gone := make(chan error, 1)
		go func() {
			_, err := waits.Acquire(ctx, name)
			gone <- err
		}()
		k.until("one waits", soon, func() bool { return k.status(other, name).Waiters == 1 })
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			k.Errorf("a cancelled wait: %v", err)
		}
		k.until("nobody waits", soon, func() bool { return k.status(other, name).Waiters == 0 })
	}
	k.release(lock)
	if s := k.status(other, name); s.Held || s.For != 0 || s.Token != 0 && s.Token < lock.Token() {
		k.Errorf("the Status of a lock that was released with token %d is %+v", lock.Token(), s)
	}
}

// Break ends one hold, tells its holder, and serves the next; the tokens see to it
// that a fence refuses the former.
func breakEndsHold(k *kit) {
	l, other, name := k.locker(k.short()), k.locker(), k.name()
	lock := k.acquire(l, name)
	t := k.status(other, name).Token
	k.breaks(other, name, t)
	if s := k.status(other, name); s.Held {
		k.Errorf("after Break the Status is %+v", s)
	}
	next, err := other.TryAcquire(k.ctx(long), name)
	if err != nil {
		k.Fatalf("after Break: %v", err)
	}
	if reason := k.lost(lock, k.b.TTL+soon).Reason; reason == fencelock.Closed || reason == fencelock.Released {
		k.Errorf("the reason is %q", reason)
	}
	if err := lock.Release(k.ctx(long)); !errors.Is(err, fencelock.ErrLost) {
		k.Errorf("Release of a lock that was broken: %v, want ErrLost", err)
	}
	if next.Token() <= lock.Token() {
		k.Errorf("the next holder has token %d after %d", next.Token(), lock.Token())
	}
	k.breaks(l, name, t) // again, and late: it is for that hold only
	k.held(next, k.b.TTL)
	k.taken(l, name)
	k.release(next)
	k.breaks(l, name, next.Token()) // of what is over
}

// A holder that has not heard of it learns of it from its Release, and who waits
// has the lock at once.
func breakBeforeRelease(k *kit) {
	l, other, name := k.locker(), k.locker(), k.name()
	lock := k.acquire(l, name)
	waits := k.locker()
	var next fencelock.Lock
	got := make(chan error, 1)
	go func() {
		var err error
		next, err = k.get(waits, name)
		got <- err
	}()
	k.until("it is known that one waits", soon, func() bool {
		s := k.status(other, name)
		return s.Waiters != 0
	})
	k.breaks(other, name, k.status(other, name).Token)
	if err := lock.Release(k.ctx(long)); !errors.Is(err, fencelock.ErrLost) {
		k.Errorf("Release of a lock that was broken: %v, want ErrLost", err)
	}
	start := time.Now()
	if err := <-got; err != nil {
		k.Fatal(err)
	}
	if d := time.Since(start); d > soon {
		k.Errorf("who waited has the lock %v after Break", d)
	}
	if next.Token() <= lock.Token() {
		k.Errorf("the next holder has token %d after %d", next.Token(), lock.Token())
	}
	if err := next.Err(); err != nil {
		k.Errorf("the next holder's lock: %v", err)
	}
	k.release(next)
}

// What is no token or no name is refused, and not looked for.
func breakRefuses(k *kit) {
	l, name := k.locker(), k.name()
	b, ok := l.(fencelock.Breaker)
	if !ok {
		k.Skip("NOT TESTED: the backend's Locker is no fencelock.Breaker")
	}
	lock := k.acquire(l, name)
	for _, t := range []fencelock.Token{0, -1} {
		if err := b.Break(k.ctx(long), name, t); err == nil {
			k.Errorf("Break(%d) is no error", t)
		}
	}
	if err := b.Break(k.ctx(long), "", 1); err == nil {
		k.Error("Break of no name is no error")
	}
	if _, err := b.Status(k.ctx(long), ""); err == nil {
		k.Error("Status of no name is no error")
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.Break(done, name, lock.Token()); !errors.Is(err, context.Canceled) {
		k.Errorf("Break with a done ctx: %v", err)
	}
	if _, err := b.Status(done, name); !errors.Is(err, context.Canceled) {
		k.Errorf("Status with a done ctx: %v", err)
	}
	k.held(lock, 0)
	k.release(lock)
}
