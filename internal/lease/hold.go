package lease

import (
	"context"
	"time"

	"github.com/fencelock/fencelock"
)

// hold is one grant of the server while this process has it. Guarded by
// Locker.mu.
type hold struct {
	ln       *line
	r        Request
	g        Grant
	start    time.Time
	deadline time.Time // when the holder must know that it has lost, if nothing is confirmed until then
	checked  instant   // when something was last confirmed, to notice a suspended machine
	token    fencelock.Token
	handle   *handle // the present holder's
	turn     turn
	alarm    alarm
	ended    bool
}

// margin is what a deadline stays below the server's: clocks may run at
// slightly different rates, and telling the holder takes time.
func margin(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// confirmed moves the deadline to what a grant or renewal has confirmed. The TTL
// counts from the sending of the request, not from its answer.
func (h *hold) confirmed(since time.Time, ttl time.Duration, at instant) {
	if d := since.Add(ttl - margin(ttl)); d.After(h.deadline) {
		h.g.Since, h.g.TTL, h.deadline, h.checked = since, ttl, d, at
	}
}

// granted makes a hold of a grant and gives it to the head of the line. A grant
// that is for nobody, or has run out before it arrived, is undone.
func (l *Locker) granted(ln *line, a attempt, g Grant) verdict {
	at := l.instant()
	h := &hold{ln: ln, r: a.r, g: g, start: at.mono, token: g.First}
	h.confirmed(g.Since, g.TTL, at)

	l.mu.Lock()
	w, late := ln.head, !h.deadline.After(at.mono)
	if w == nil || late || !w.fits(a.r.TTL, g.First) {
		l.undo(a.r)
		var out []delivery
		if late {
			out = ln.tooLate()
		}
		l.mu.Unlock()
		for _, d := range out {
			d.send()
		}
		return again
	}
	ln.remove(w)
	ln.hold, ln.busy, ln.cancel, ln.refused, ln.late = h, false, nil, false, 0
	h.turn = l.newTurn(h, ln.seq, at.mono)
	l.schedule(h)
	l.watch(h)
	d := l.hand(h, w, false)
	l.mu.Unlock()
	d.send()
	return served
}

// handle is the Lock that a caller has: one holder's share of a hold, with its
// own token. All but the first block is guarded by Locker.mu.
type handle struct {
	l      *Locker
	h      *hold
	name   string
	token  fencelock.Token
	passed bool
	ctx    context.Context // of the Acquire, for its values; only if observed
	start  time.Time       // of the Acquire

	told    bool                 // the caller has the handle
	end     *fencelock.LostError // nil while held
	lost    chan struct{}        // made when first asked for
	after   []*func()
	release release
}

// hand makes w the holder of h with h's present token; l.mu is held.
func (l *Locker) hand(h *hold, w *waiter, passed bool) delivery {
	k := &handle{l: l, h: h, name: h.ln.name, token: h.token, passed: passed, start: w.start}
	if l.events != nil {
		k.ctx = context.WithoutCancel(w.ctx)
	}
	h.handle = k
	return delivery{w, outcome{handle: k}}
}

// accept is the last step of an Acquire: it reports false if the hold has run
// out before its waiter woke.
func (l *Locker) accept(k *handle) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.check(k, time.Now())
	if k.end != nil {
		return false
	}
	k.told = true
	l.note(k, fencelock.Event{Kind: fencelock.EventAcquire, Start: k.start, Passed: k.passed})
	return true
}

// check notices that the deadline has passed even if its timer has not fired
// yet, as in a process that was stopped and has just woken; l.mu is held.
func (l *Locker) check(k *handle, now time.Time) {
	if k.end == nil && !now.Before(k.h.deadline) {
		l.lose(k.h, fencelock.LostError{Reason: fencelock.Expired})
	}
}

// lose ends a hold other than by release and tells its holder; l.mu is held.
func (l *Locker) lose(h *hold, why fencelock.LostError) {
	if h.ended {
		return
	}
	l.end(h)
	k := h.handle
	why.Name, why.Token = k.name, k.token
	k.end = &why
	if k.lost != nil {
		close(k.lost)
	}
	for _, f := range k.after {
		go (*f)()
	}
	k.after = nil
	if k.told {
		l.note(k, fencelock.Event{Kind: fencelock.EventLose, Start: h.start, Err: k.end})
		if l.events != nil {
			go l.events.flush()
		}
	}
	switch why.Reason {
	case fencelock.Expired, fencelock.Closed, fencelock.SessionGone:
		l.undo(h.r) // it may still stand at the server, which need not have noticed
	}
	l.next(h.ln, false)
}

// end takes a hold out of everything that acts on it; l.mu is held.
func (l *Locker) end(h *hold) {
	h.ended = true
	h.ln.hold, h.ln.given = nil, time.Now()
	l.unschedule(h)
	l.unwatch(h)
}

func (k *handle) Name() string           { return k.name }
func (k *handle) Token() fencelock.Token { return k.token }

func (k *handle) Lost() <-chan struct{} {
	k.l.mu.Lock()
	defer k.l.mu.Unlock()
	if k.lost == nil {
		k.lost = make(chan struct{})
		if k.end != nil && k.end.Reason != fencelock.Released {
			close(k.lost)
		}
	}
	return k.lost
}

func (k *handle) Err() error {
	k.l.mu.Lock()
	defer k.l.mu.Unlock()
	k.l.check(k, time.Now())
	if k.end == nil {
		return nil
	}
	return k.end
}

func (k *handle) Valid() time.Duration {
	k.l.mu.Lock()
	defer k.l.mu.Unlock()
	now := time.Now()
	k.l.check(k, now)
	if k.end != nil {
		return 0
	}
	return k.h.deadline.Sub(now)
}

// AfterLost arranges for f to run in its own goroutine once the lock is lost,
// at once if it is, and returns a function that calls this off. See
// context.AfterFunc.
func (k *handle) AfterLost(f func()) (stop func() bool) {
	k.l.mu.Lock()
	defer k.l.mu.Unlock()
	if k.end != nil {
		if k.end.Reason != fencelock.Released {
			go f()
		}
		return func() bool { return false }
	}
	p := &f
	k.after = append(k.after, p)
	return func() bool {
		k.l.mu.Lock()
		defer k.l.mu.Unlock()
		for i, q := range k.after {
			if q == p {
				k.after = append(k.after[:i], k.after[i+1:]...)
				return true
			}
		}
		return false
	}
}
