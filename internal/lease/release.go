package lease

import (
	"context"
	"errors"
	"time"

	"github.com/fencelock/fencelock"
)

// release is the state of a handle's Release. Guarded by Locker.mu.
type release struct {
	begun bool
	start time.Time
	known bool          // err is final
	err   error         // what every further call returns
	done  chan struct{} // made by the first call that has to wait; closed when known
}

func (k *handle) Release(ctx context.Context) error {
	l := k.l
	l.mu.Lock()
	now := time.Now()
	l.check(k, now)
	switch r := &k.release; {
	case r.begun:
		return l.awaitRelease(ctx, k)
	case k.end != nil:
		defer l.mu.Unlock()
		return k.end
	}
	d, trip := l.giveUp(k, now)
	if trip && ctx.Err() != nil {
		// An ended ctx still releases; it only does not wait.
		go l.trip(context.WithoutCancel(ctx), k)
		return l.awaitRelease(ctx, k)
	}
	l.mu.Unlock()
	if !trip {
		d.send()
		l.events.flush()
		return nil
	}
	err := l.trip(ctx, k)
	l.events.flush()
	return err
}

// awaitRelease waits for the result of a release that another call has begun,
// lets l.mu go meanwhile, and does not take it again.
func (l *Locker) awaitRelease(ctx context.Context, k *handle) error {
	r := &k.release
	if r.known {
		defer l.mu.Unlock()
		return r.err
	}
	if r.done == nil {
		r.done = make(chan struct{})
	}
	l.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return wrap("release", k.name, ctx.Err())
	}
}

// giveBack releases a hold that nobody wants, in the background.
func (l *Locker) giveBack(k *handle) {
	l.mu.Lock()
	if k.end != nil {
		l.mu.Unlock()
		return
	}
	d, trip := l.giveUp(k, time.Now())
	if trip {
		go l.trip(context.Background(), k)
	}
	l.mu.Unlock()
	d.send()
}

// giveUp ends k's hold: it is passed on, or a trip to the server is due, for
// which the caller calls trip. Until that is over the line stays busy, else
// newcomers would be refused by our own old hold. l.mu is held.
func (l *Locker) giveUp(k *handle, now time.Time) (d delivery, trip bool) {
	k.end = &fencelock.LostError{Name: k.name, Token: k.token, Reason: fencelock.Released}
	k.after = nil
	k.release = release{begun: true, start: now}
	if d, ok := l.pass(k.h, now); ok {
		l.released(k, nil, true)
		return d, false
	}
	ln := k.h.ln
	l.end(k.h) // and with it the block of tokens, for ever, even if the release fails
	ln.busy = true
	if l.queuer == nil && ln.head != nil {
		ln.rest = l.handOff.value // its turn is over: let another process have it
	}
	l.start()
	return delivery{}, true
}

// trip releases k's hold at the server. If the outcome is unknown, it is tried
// again in the background until it is known or the TTL has passed.
func (l *Locker) trip(ctx context.Context, k *handle) error {
	ctx, cancel := context.WithTimeout(ctx, patience(k.h.r.TTL))
	sent := time.Now()
	err := l.driver.Release(ctx, k.h.r, k.h.g)
	cancel()

	l.mu.Lock()
	if err == nil {
		l.handOff.add(2 * time.Since(sent)) // a hand-off is our release and another's acquire
	}
	known := l.conclude(k, err)
	if !known {
		l.start()
		go l.tripAgain(k, err)
	} else {
		err = k.release.err
	}
	ln := k.h.ln
	ln.busy = false
	l.next(ln, false)
	l.finishLocked()
	l.mu.Unlock()
	if !known {
		return wrap("release", k.name, err)
	}
	return err
}

func (l *Locker) tripAgain(k *handle, last error) {
	defer l.events.flush()
	defer l.finish()
	err := persist(k.h.r.TTL, func(ctx context.Context) error {
		last = l.driver.Release(ctx, k.h.r, k.h.g)
		if errors.Is(last, fencelock.ErrLost) {
			return nil
		}
		return last
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.released(k, wrap("release", k.name, err), false)
		return
	}
	l.conclude(k, last)
}

// conclude notes the result of a trip if it is known; l.mu is held.
func (l *Locker) conclude(k *handle, err error) bool {
	var lost *fencelock.LostError
	switch {
	case err == nil:
		l.released(k, nil, false)
	case errors.As(err, &lost):
		why := *lost
		why.Name, why.Token = k.name, k.token
		l.released(k, &why, false)
	default:
		return false
	}
	return true
}

// released makes the result of k's Release final; l.mu is held.
func (l *Locker) released(k *handle, err error, passed bool) {
	r := &k.release
	r.known, r.err = true, err
	if r.done != nil {
		close(r.done)
	}
	if k.told {
		l.note(k, fencelock.Event{Kind: fencelock.EventRelease, Start: r.start, Passed: passed, Err: err})
	}
}
