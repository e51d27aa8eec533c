package lease

import (
	"context"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/option"
)

// line is everything this process does about one name. It exists while somebody
// here holds the name, waits for it or gives it up. Guarded by Locker.mu.
type line struct {
	name, key  string
	head, tail *waiter
	seq        uint64             // of the last waiter that came
	hold       *hold              // nil: not held here
	busy       bool               // an attempt or a release is on its way
	cancel     context.CancelFunc // ends the attempt under way
	refused    bool               // the server has said that somebody else holds it
	until      time.Time          // and until when at most, unless renewed
	given      time.Time          // when this process last gave it up or lost it
	rest       time.Duration      // to sit out before the next attempt
	late       int                // grants in a row that came too late
}

// waiter is one Acquire in line.
type waiter struct {
	ctx        context.Context // of the call, for its values
	set        option.Set
	start      time.Time
	try        bool // does not wait
	served     chan outcome
	seq        uint64
	queued     bool
	prev, next *waiter
}

// outcome is what a waiter gets, once: a handle or an error.
type outcome struct {
	handle *handle
	err    error
}

// delivery is an outcome on its way to its waiter, made after the mutex is
// let go.
type delivery struct {
	to *waiter
	outcome
}

func (d delivery) send() {
	if d.to != nil {
		d.to.served <- d.outcome
	}
}

func newWaiter(ctx context.Context, set option.Set, start time.Time, try bool) *waiter {
	return &waiter{ctx: ctx, set: set, start: start, try: try, served: make(chan outcome, 1)}
}

// fits reports whether w can be served by a grant made for ttl with this token.
func (w *waiter) fits(ttl time.Duration, t fencelock.Token) bool {
	return w.set.TTL == ttl && t > fencelock.Token(w.set.MinToken)
}

func (ln *line) push(w *waiter) {
	ln.seq++
	w.seq, w.queued, w.prev = ln.seq, true, ln.tail
	if ln.tail == nil {
		ln.head = w
	} else {
		ln.tail.next = w
	}
	ln.tail = w
}

func (ln *line) remove(w *waiter) {
	if w.prev == nil {
		ln.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		ln.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.queued = nil, nil, false
}

// refuse takes out the waiters that pick says and returns what to tell them.
func (ln *line) refuse(err error, pick func(*waiter) bool) (out []delivery) {
	for w := ln.head; w != nil; {
		next := w.next
		if pick(w) {
			ln.remove(w)
			out = append(out, delivery{w, outcome{err: err}})
		}
		w = next
	}
	return out
}

// known reports whether the lock is known to have been held, here or elsewhere,
// while w waited.
func (ln *line) known(w *waiter) bool {
	return ln.refused || ln.hold != nil || ln.given.After(w.start)
}

// left is how long the present holder, here or elsewhere, may keep the lock.
func (ln *line) left(now time.Time) time.Duration {
	until := ln.until
	if ln.hold != nil {
		until = ln.hold.deadline
	}
	return max(0, until.Sub(now))
}

// leave is called when a waiter has gone: an attempt that nobody waits for is
// cancelled; otherwise it goes on for the next. l.mu is held.
func (l *Locker) leave(ln *line) {
	if ln.head == nil && ln.cancel != nil {
		ln.cancel()
	}
}

// next decides what becomes of a line that has lost its hold or ended its trip:
// somebody talks to the backend for those who wait, or it goes. l.mu is held.
func (l *Locker) next(ln *line, refused bool) {
	switch {
	case ln.busy || ln.hold != nil:
	case ln.head == nil:
		delete(l.lines, ln.name)
		l.quiet()
	default:
		ln.busy = true
		l.start()
		go l.talk(ln, refused && l.queuer == nil) // a refused Try may queue at once
	}
}
