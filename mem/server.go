package mem

import (
	"slices"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

// Server stands for the server that several processes share. It keeps, for
// every name it has seen, a counter for as long as it lives. It is safe for
// concurrent use and needs no closing.
type Server struct {
	mu      sync.Mutex
	step    time.Duration // what StepClock has added to the clock
	names   map[string]*entry
	paused  bool
	backlog []func() // requests that came in while paused
	fault   error
	outbox  []func() // replies, sent once mu is free
	served  int      // requests carried out
}

// entry is what the server knows of one name.
type entry struct {
	owner       string // the attempt that holds the lock, empty if it is free
	first, last fencelock.Token
	ends        time.Time // by the server's clock
	counter     fencelock.Token
	dead        []grave // the last attempts that ended, newest last
	queue       []*waiter
	timer       *time.Timer // runs while somebody waits for the holder's end
}

// grave marks an attempt that has ended. A delayed duplicate of it must not
// take the lock again.
type grave struct {
	attempt  string
	released bool // it held the lock until its release
}

// waiter is a process in the queue of a name.
type waiter struct {
	lease.Request
	sent  time.Time // the sending of its last poll, echoed with the grant
	seen  time.Time // the arrival of that poll
	reply func(lease.Grant, error)
}

const graves = 32

// NewServer returns a Server that nobody uses yet.
func NewServer() *Server { return &Server{names: make(map[string]*entry)} }

// handle carries out one request when the server runs. Replies that do leaves
// with send go out afterwards, without the mutex.
func (s *Server) handle(fail func(error), do func(now time.Time)) {
	s.mu.Lock()
	switch {
	case s.paused:
		s.backlog = append(s.backlog, func() { s.handle(fail, do) })
	case s.fault != nil:
		err := s.fault
		s.send(func() { fail(lease.Definite(err)) })
	default:
		s.served++
		do(s.now())
	}
	s.unlock()
}

func (s *Server) send(reply func()) { s.outbox = append(s.outbox, reply) }

func (s *Server) unlock() {
	out := s.outbox
	s.outbox = nil
	s.mu.Unlock()
	for _, reply := range out {
		reply()
	}
}

func (s *Server) now() time.Time { return time.Now().Add(s.step) }

// entry returns what is known of key, as it stands now.
func (s *Server) entry(key string, now time.Time) *entry {
	e := s.names[key]
	if e == nil {
		e = &entry{}
		s.names[key] = e
	}
	s.settle(key, e, now)
	return e
}

// settle ends a hold whose time is over and gives a free lock to the first
// waiter that is still there.
func (s *Server) settle(key string, e *entry, now time.Time) {
	if e.owner != "" && !now.Before(e.ends) {
		e.owner = ""
	}
	for !s.paused && e.owner == "" && len(e.queue) > 0 {
		w := e.queue[0]
		e.queue = e.queue[1:]
		if time.Since(w.seen) >= w.TTL { // a dead process at the head blocks nobody
			continue
		}
		g, err := e.grant(w.Request, w.sent, now)
		s.send(func() { w.reply(g, err) })
	}
	switch {
	case e.owner != "" && len(e.queue) > 0 && e.timer == nil:
		e.timer = time.AfterFunc(e.ends.Sub(now), func() { s.tick(key) })
	case e.owner != "" && len(e.queue) > 0:
		e.timer.Reset(e.ends.Sub(now))
	case e.timer != nil:
		e.timer.Stop()
	}
}

func (s *Server) tick(key string) {
	s.mu.Lock()
	if e := s.names[key]; e != nil {
		s.settle(key, e, s.now())
	}
	s.unlock()
}

// acquire grants a lock that is free, or is this attempt's already.
func (e *entry) acquire(r lease.Request, sent, now time.Time) (lease.Grant, error) {
	switch {
	case e.buried(r.Attempt) != nil:
		return lease.Grant{}, lease.Definite(errGivenUp)
	case e.owner == r.Attempt: // a replay: the same block, and the deadline stays
		return lease.Grant{First: e.first, Last: e.last, Since: sent, TTL: e.ends.Sub(now)}, nil
	case e.owner != "":
		return lease.Grant{}, &fencelock.HeldError{For: e.ends.Sub(now)}
	}
	return e.grant(r, sent, now)
}

func (e *entry) grant(r lease.Request, sent, now time.Time) (lease.Grant, error) {
	first, last, err := mint(e.counter, now, r.Min, r.Tokens())
	if err != nil {
		return lease.Grant{}, lease.Unfit(err)
	}
	e.counter, e.owner, e.first, e.last, e.ends = last, r.Attempt, first, last, now.Add(r.TTL)
	return lease.Grant{First: first, Last: last, Since: sent, TTL: r.TTL}, nil
}

func (e *entry) renew(r lease.Request, now time.Time) error {
	if e.owner != r.Attempt {
		return e.lost()
	}
	e.ends = now.Add(r.TTL)
	return nil
}

// wait is acquire for a process that stays in the queue if it is refused. Then
// left is how long the holder may keep the lock.
func (s *Server) wait(w *waiter, now time.Time) (g lease.Grant, left time.Duration, err error) {
	e := s.entry(w.Key, now)
	g, err = e.acquire(w.Request, w.sent, now)
	held, refused := err.(*fencelock.HeldError)
	if !refused {
		return g, 0, err
	}
	if i := e.place(w.Attempt); i >= 0 {
		e.queue[i] = w
	} else {
		e.queue = append(e.queue, w)
		s.settle(w.Key, e, now) // sets the timer for the holder's end
	}
	return g, held.For, nil
}

func (e *entry) place(attempt string) int {
	return slices.IndexFunc(e.queue, func(w *waiter) bool { return w.Attempt == attempt })
}

// end gives the lock on if the attempt holds it, takes the attempt out of the
// queue, and sees to it that it cannot come back. The error is nil if it held
// the lock, also when the request is repeated.
func (s *Server) end(r lease.Request, now time.Time) error {
	e := s.entry(r.Key, now)
	if g := e.buried(r.Attempt); g != nil {
		if g.released {
			return nil
		}
		return e.lost()
	}
	held := e.owner == r.Attempt
	e.bury(r.Attempt, held)
	if i := e.place(r.Attempt); i >= 0 {
		e.queue = slices.Delete(e.queue, i, i+1)
	}
	if !held {
		return e.lost()
	}
	e.owner = ""
	s.settle(r.Key, e, now)
	return nil
}

// lost says why somebody who thought that he held the lock does not.
func (e *entry) lost() error {
	if e.owner != "" {
		return &fencelock.LostError{Reason: fencelock.Taken}
	}
	return &fencelock.LostError{Reason: fencelock.Deleted}
}

func (e *entry) bury(attempt string, released bool) {
	e.dead = append(e.dead, grave{attempt, released})
	if len(e.dead) > graves {
		e.dead = slices.Delete(e.dead, 0, 1)
	}
}

func (e *entry) buried(attempt string) *grave {
	if i := slices.IndexFunc(e.dead, func(g grave) bool { return g.attempt == attempt }); i >= 0 {
		return &e.dead[i]
	}
	return nil
}
