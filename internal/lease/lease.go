// Package lease is the engine under every backend: it waits, passes, renews,
// loses and cleans up, once for all. A backend implements [Driver] and wraps
// [Locker] in its own type.
//
// One mutex guards a Locker. No driver call, observer call or send to a waiter
// happens under it. A name in use has a line: its local waiters in order, and
// either a hold or at most one goroutine that talks to the backend for them.
// The parts, a file each: line (waiting), attempt and poll (talking), hold (a
// grant and its handles), pass (between goroutines), renew (deadlines), watch and
// clock (other signs of a loss), release, cleanup, idle, events.
package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/option"
)

// Locker is the engine of one backend's Locker.
type Locker struct {
	driver Driver
	queuer Queuer // nil: polled
	waker  Waker  // nil: cannot wake
	def    option.Set
	events *events                       // nil: nobody observes
	wall   func(now time.Time) time.Time // the wall clock; tests step it

	mu       sync.Mutex
	closed   bool
	lines    map[string]*line
	alarms   alarms
	watches  map[<-chan struct{}]*watch
	handOff  estimate
	jobs     int           // goroutines and calls that Close waits for
	jobsDone chan struct{} // non-nil while a Close waits; closed when jobs is 0
	idle     idleness
}

// New returns the engine that runs d with the settings of a backend's New.
func New(d Driver, s option.Set) *Locker {
	l := &Locker{
		driver:  d,
		def:     s,
		wall:    func(now time.Time) time.Time { return now.Round(0) },
		lines:   make(map[string]*line),
		watches: make(map[<-chan struct{}]*watch),
	}
	l.queuer, _ = d.(Queuer)
	l.waker, _ = d.(Waker)
	l.idle.driver, _ = d.(Idler)
	if f := observer(s); f != nil {
		l.events = &events{call: f}
	}
	return l
}

// Key returns the key of name at the server.
func (l *Locker) Key(name string) string { return l.def.Prefix + name }

// Acquire implements fencelock.Locker.
func (l *Locker) Acquire(ctx context.Context, name string, opts ...fencelock.Option) (fencelock.Lock, error) {
	return l.acquire(ctx, name, opts, false)
}

// TryAcquire implements fencelock.Locker.
func (l *Locker) TryAcquire(ctx context.Context, name string, opts ...fencelock.Option) (fencelock.Lock, error) {
	return l.acquire(ctx, name, opts, true)
}

func (l *Locker) acquire(ctx context.Context, name string, opts []fencelock.Option, try bool) (fencelock.Lock, error) {
	start := time.Now()
	set := l.def
	err := CheckName(name)
	if err == nil && len(opts) > 0 {
		if set, err = override(l.def, opts); err != nil {
			err = wrap("acquire", name, err)
		}
	}
	var h *handle
	if err == nil {
		h, err = l.wait(ctx, name, set, start, try)
	}
	if err != nil {
		l.emit(ctx, fencelock.Event{Kind: fencelock.EventAcquire, Name: name, Start: start, Err: err})
		return nil, err
	}
	l.events.flush()
	return h, nil
}

// errWaitOver is the cause of a ctx that Wait has ended.
var errWaitOver = errors.New("the bound set by Wait is over")

func (l *Locker) wait(ctx context.Context, name string, set option.Set, start time.Time, try bool) (*handle, error) {
	switch {
	case set.Given(option.Wait) && set.Wait == 0:
		try = true
	case set.Given(option.Wait) && !try:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, set.Wait, errWaitOver)
		defer cancel()
	}
	for {
		h, err := l.once(ctx, name, set, start, try)
		if h != nil || err != nil {
			return h, err
		}
		// Granted, but run out before the waiter woke: it is not handed to the
		// caller.
	}
}

// once gets in line for name. It returns nil, nil if the hold that came had
// already run out.
func (l *Locker) once(ctx context.Context, name string, set option.Set, start time.Time, try bool) (*handle, error) {
	if ctx.Err() != nil {
		return nil, l.ended(ctx, name, false, 0)
	}
	w := newWaiter(ctx, set, start, try)
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, wrap("acquire", name, fencelock.ErrClosed)
	}
	ln := l.lines[name]
	if ln != nil && try {
		left := ln.left(time.Now())
		l.mu.Unlock()
		return nil, &fencelock.HeldError{Name: name, For: left}
	}
	lone := ln == nil
	if lone {
		ln = &line{name: name, key: l.Key(name)}
		l.lines[name] = ln
	}
	ln.push(w)
	if !lone {
		l.mu.Unlock()
		return l.await(ctx, ln, w)
	}
	// Nobody is in line: the caller's goroutine makes the first attempt itself.
	ln.busy = true
	l.start()
	l.mu.Unlock()
	l.first(ctx, ln, w)
	return l.await(ctx, ln, w)
}

// await waits until w is served or ctx ends.
func (l *Locker) await(ctx context.Context, ln *line, w *waiter) (*handle, error) {
	var o outcome
	select {
	case o = <-w.served:
	case <-ctx.Done():
		l.mu.Lock()
		if w.queued {
			ln.remove(w)
			known, left := ln.known(w), ln.left(time.Now())
			l.leave(ln)
			l.mu.Unlock()
			return nil, l.ended(ctx, ln.name, known, left)
		}
		l.mu.Unlock()
		// It was served at this moment: take the result and, if it is the caller
		// who has left, give it back.
		if o = <-w.served; o.handle != nil && context.Cause(ctx) != errWaitOver {
			l.giveBack(o.handle)
			return nil, l.ended(ctx, ln.name, false, 0)
		}
	}
	if o.err != nil {
		if errors.Is(o.err, fencelock.ErrHeld) || errors.Is(o.err, fencelock.ErrClosed) || ctx.Err() == nil {
			return nil, o.err
		}
		return nil, l.ended(ctx, ln.name, false, 0)
	}
	if !l.accept(o.handle) {
		return nil, nil
	}
	return o.handle, nil
}

// ended is the error of a wait that ctx has ended. known says whether somebody
// else is known to have held the lock: a server that never answered is not that.
func (l *Locker) ended(ctx context.Context, name string, known bool, left time.Duration) error {
	cause := ctx.Err()
	if context.Cause(ctx) == errWaitOver {
		if known {
			cause = nil
		} else {
			cause = fmt.Errorf("the server has not answered within the time set by Wait: %w", context.DeadlineExceeded)
		}
	}
	if known {
		return &fencelock.HeldError{Name: name, For: left, Cause: cause}
	}
	return wrap("acquire", name, cause)
}

func wrap(verb, name string, err error) error {
	return fmt.Errorf("fencelock: %s %q: %w", verb, name, err)
}

// start counts a goroutine or call in; l.mu is held. Close waits for it.
func (l *Locker) start() { l.jobs++ }

// finish counts it out.
func (l *Locker) finish() {
	l.mu.Lock()
	l.finishLocked()
	l.mu.Unlock()
}

func (l *Locker) finishLocked() {
	if l.jobs--; l.jobs == 0 && l.jobsDone != nil {
		close(l.jobsDone)
		l.jobsDone = nil
	}
}

// Close ends the waits, tells the holders that their locks are lost (reason
// Closed) and releases them, waits until all clean-ups are done or ctx ends,
// and makes the driver idle. Later acquires fail with ErrClosed. It may be called
// again.
func (l *Locker) Close(ctx context.Context) error {
	l.mu.Lock()
	var out []delivery
	if !l.closed {
		l.closed = true
		for _, ln := range l.lines {
			out = append(out, l.closeLine(ln)...)
		}
	}
	l.mu.Unlock()
	for _, d := range out {
		d.send()
	}
	l.events.flush()
	for {
		l.mu.Lock()
		if l.jobs == 0 {
			l.mu.Unlock()
			break
		}
		if l.jobsDone == nil {
			l.jobsDone = make(chan struct{})
		}
		done := l.jobsDone
		l.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return fmt.Errorf("fencelock: close: clean-up goes on in the background: %w", ctx.Err())
		}
	}
	return l.idle.stop(ctx)
}
