package lease

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"github.com/fencelock/fencelock"
)

// attempt is one request on its way, made for the waiter at the head.
type attempt struct {
	r     Request
	head  *waiter
	seq   uint64 // the last waiter in line when it began
	queue bool   // it waits in the server's queue
	began instant
}

// verdict is what an attempt means for the goroutine that made it.
type verdict int

const (
	served  verdict = iota // the head of the line has the lock
	again                  // try again at once if anybody waits
	refused                // somebody else has the lock
)

// maxLate is how many grants in a row may come too late before those who wait
// are told: then the TTL is too short for this server.
const maxLate = 5

var errLate = errors.New("the lock was granted too late to be of use, and given back")

// prepare makes a request for the head of the line; l.mu is held.
func (l *Locker) prepare(ln *line) attempt {
	w := ln.head
	a := attempt{head: w, seq: ln.seq, queue: l.queuer != nil && !w.try, began: l.instant()}
	passes := w.set.Passes
	a.r = Request{
		Key:     ln.key,
		Attempt: newAttemptID(),
		TTL:     w.set.TTL,
		Min:     fencelock.Token(w.set.MinToken),
		Tokens:  func() int { return passes + 1 },
		Refused: func(left time.Duration) {
			l.mu.Lock()
			ln.refusedFor(left)
			l.mu.Unlock()
		},
	}
	return a
}

func (ln *line) refusedFor(left time.Duration) {
	ln.refused, ln.until, ln.late = true, time.Now().Add(left), 0
}

// tooLate is called for a grant that is of no use any more. Those who wait try
// again, unless that happens again and again.
func (ln *line) tooLate() []delivery {
	ln.late++
	return ln.refuse(wrap("acquire", ln.name, errLate), func(w *waiter) bool { return w.try || ln.late >= maxLate })
}

// newAttemptID returns 128 fresh random bits. They come from the kernel each
// time: a prefix or a generator's state would be the same in a cloned machine.
func newAttemptID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func (l *Locker) ask(ctx context.Context, a attempt) (Grant, error) {
	if a.queue {
		return l.queuer.Queue(ctx, a.r)
	}
	return l.driver.Try(ctx, a.r)
}

// first makes the first attempt of a line in the goroutine of the waiter that
// opened it.
func (l *Locker) first(parent context.Context, ln *line, w *waiter) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	v, out := again, delivery{}
	l.mu.Lock()
	if w.queued { // else the Locker was closed meanwhile
		ln.cancel = cancel
		a := l.prepare(ln)
		l.mu.Unlock()
		g, err := l.ask(ctx, a)
		v = l.settle(ctx, ln, a, g, err)
		l.mu.Lock()
	}
	if v != served {
		if parent.Err() != nil && w.queued {
			ln.remove(w)
			out = delivery{w, outcome{err: l.ended(parent, ln.name, ln.refused, ln.left(time.Now()))}}
		}
		ln.busy, ln.cancel = false, nil
		l.next(ln, v == refused)
	}
	l.finishLocked()
	l.mu.Unlock()
	out.send()
}

// talk makes the attempts for those who wait in line until one is granted or
// nobody is left.
func (l *Locker) talk(ln *line, wasRefused bool) {
	defer l.finish()
	p := poller{l: l, ln: ln}
	defer p.stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer func() { cancel() }()
	for {
		l.mu.Lock()
		w := ln.head
		if w == nil {
			ln.busy, ln.cancel = false, nil
			l.next(ln, false)
			l.mu.Unlock()
			return
		}
		if ln.cancel == nil || ctx.Err() != nil {
			cancel()
			p.stop() // the old ctx has ended its subscription
			ctx, cancel = context.WithCancel(context.WithoutCancel(w.ctx))
			ln.cancel = cancel
		}
		rest := ln.rest
		ln.rest = 0
		l.mu.Unlock()

		p.pause(ctx, w, rest, wasRefused)

		l.mu.Lock()
		if ln.head == nil || ctx.Err() != nil {
			l.mu.Unlock()
			continue
		}
		a := l.prepare(ln)
		l.mu.Unlock()

		g, err := l.ask(ctx, a)
		v := l.settle(ctx, ln, a, g, err)
		if v == served {
			return
		}
		wasRefused = v == refused
	}
}

// settle does what the answer to an attempt asks for: it serves the head, or
// tells those concerned of the error, and undoes what may be left.
func (l *Locker) settle(ctx context.Context, ln *line, a attempt, g Grant, err error) verdict {
	if err == nil {
		g, err = l.reconfirm(ctx, a, g)
	}
	if err == nil {
		return l.granted(ln, a, g)
	}
	l.mu.Lock()
	if !IsDefinite(err) || a.queue && ctx.Err() != nil {
		l.undo(a.r)
	}
	v := again
	var out []delivery
	switch {
	case ctx.Err() != nil: // nobody waits for this attempt any more
	case errors.Is(err, fencelock.ErrLost):
		out = ln.tooLate() // this attempt is dead, a fresh one may succeed
	case errors.Is(err, fencelock.ErrHeld):
		v = refused
		var held *fencelock.HeldError
		if !errors.As(err, &held) {
			held = new(fencelock.HeldError)
		}
		ln.refusedFor(held.For)
		out = ln.refuse(&fencelock.HeldError{Name: ln.name, For: held.For}, func(w *waiter) bool { return w.try })
	default:
		ln.refused = false
		unfit := isUnfit(err)
		out = ln.refuse(wrap("acquire", ln.name, unmark(err)), func(w *waiter) bool {
			if unfit {
				return w == a.head
			}
			return w.seq <= a.seq
		})
	}
	l.mu.Unlock()
	for _, d := range out {
		d.send()
	}
	return v
}
