package mem

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fencelock/fencelock/internal/lease"
)

// Link is the connection between one Locker and its [Server], as if each ran on
// a machine of its own. Its methods disturb the connection until Heal; other
// Lockers notice nothing. It is safe for concurrent use.
type Link struct {
	mu            sync.Mutex
	delay, jitter time.Duration
	drops         int
	hole, frozen  bool
	cut           chan struct{} // closed by Cut
	held          []func()      // messages, while frozen
}

var errCut = errors.New("mem: connection refused: the link is cut")

func newLink() *Link { return &Link{cut: make(chan struct{})} }

// Delay makes every reply d late. The request has its effect at once.
func (l *Link) Delay(d time.Duration) { l.set(func() { l.delay = d }) }

// Jitter makes every message, request or reply, late by a random time up to
// max. Messages may overtake each other.
func (l *Link) Jitter(max time.Duration) { l.set(func() { l.jitter = max }) }

// DropReply loses the next reply: the request is carried out, and its caller
// waits for nothing until its ctx ends.
func (l *Link) DropReply() { l.set(func() { l.drops++ }) }

// BlackHole loses all messages. Nobody gets an error, callers wait until their
// ctx ends.
func (l *Link) BlackHole() { l.set(func() { l.hole = true }) }

// Freeze keeps all messages until Heal, which delivers them.
func (l *Link) Freeze() { l.set(func() { l.frozen = true }) }

// Cut closes the connection: calls fail at once, new ones are refused, and
// whether those that were under way had an effect is unknown.
func (l *Link) Cut() {
	l.set(func() {
		l.held = nil
		select {
		case <-l.cut:
		default:
			close(l.cut)
		}
	})
}

// Heal ends every disturbance.
func (l *Link) Heal() {
	var held []func()
	l.set(func() {
		held = l.held
		l.delay, l.jitter, l.drops, l.hole, l.frozen, l.held = 0, 0, 0, false, false, nil
		select {
		case <-l.cut:
			l.cut = make(chan struct{})
		default:
		}
	})
	for _, deliver := range held {
		deliver()
	}
}

func (l *Link) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// dial returns what Cut closes.
func (l *Link) dial() (cut <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.cut:
		return nil, lease.Definite(errCut)
	default:
		return l.cut, nil
	}
}

func (l *Link) request(deliver func()) { l.carry(false, deliver) }
func (l *Link) reply(deliver func())   { l.carry(true, deliver) }

// carry delivers a message, now or later. Once it has been sent it will have
// its effect, also if the sender has given up.
func (l *Link) carry(reply bool, deliver func()) {
	l.mu.Lock()
	lost := l.hole
	select {
	case <-l.cut:
		lost = true
	default:
	}
	var late time.Duration
	if reply {
		late = l.delay
		if l.drops > 0 && !lost {
			l.drops--
			lost = true
		}
	}
	if l.jitter > 0 {
		late += rand.N(l.jitter)
	}
	frozen := l.frozen && !lost
	if frozen {
		l.held = append(l.held, deliver)
	}
	l.mu.Unlock()
	switch {
	case lost || frozen:
	case late > 0:
		time.AfterFunc(late, deliver)
	default:
		deliver()
	}
}

// call sends one request and returns its result, or an error at ctx's end.
func call[T any](ctx context.Context, l *Link, s *Server, do func(now time.Time) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, lease.Definite(err)
	}
	cut, err := l.dial()
	if err != nil {
		return none, err
	}
	answers := make(chan answer, 1)
	reply := func(v T, err error) { l.reply(func() { answers <- answer{v, err} }) }
	l.request(func() {
		s.handle(func(err error) { reply(none, err) }, func(now time.Time) {
			v, err := do(now)
			s.send(func() { reply(v, err) })
		})
	})
	select {
	case a := <-answers:
		return a.value, a.err
	case <-cut:
		return none, errCut
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
