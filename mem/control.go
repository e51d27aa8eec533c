package mem

import (
	"maps"
	"slices"
	"time"

	"github.com/fencelock/fencelock"
)

// thief owns what Steal has taken. No attempt has this id.
const thief = "stolen"

// Expire ends the hold of name at the server, as when its TTL has run out or
// somebody has deleted it by hand; the next waiter gets the lock. The holder is
// told at its next renewal. Use it to test that work stops when the lock is
// lost, and that a late write is refused.
func (s *Server) Expire(name string) {
	s.mu.Lock()
	if e := s.names[name]; e != nil {
		e.owner = ""
		s.settle(name, e, s.now())
	}
	s.unlock()
}

// Steal makes somebody else hold name for ttl, whoever holds it now, and
// returns the new holder's token. Use it to test what your code does while
// another process has the lock and, with the token admitted by a [Fence], that
// the data is safe from the former holder.
func (s *Server) Steal(name string, ttl time.Duration) fencelock.Token {
	s.mu.Lock()
	defer s.unlock()
	now := s.now()
	e := s.entry(name, now)
	e.counter, _, _ = mint(e.counter, now, 0, 1)
	e.owner, e.first, e.last, e.ends = thief, e.counter, e.counter, now.Add(ttl)
	s.settle(name, e, now)
	return e.first
}

// Forget loses all that the server knows of name: hold, counter and waiters, as
// when a server comes back without its disk. Use it to test that tokens still
// rise.
func (s *Server) Forget(name string) {
	s.mu.Lock()
	if e := s.names[name]; e != nil && e.timer != nil {
		e.timer.Stop()
	}
	delete(s.names, name)
	s.unlock()
}

// Pause makes the server hang, as when its process is stopped: requests are
// kept until Resume, callers wait until their ctx ends. Time goes on. Use it to
// test that your code answers in time, and that a holder hears of the loss.
func (s *Server) Pause() {
	s.mu.Lock()
	s.paused = true
	s.unlock()
}

// Resume ends a Pause: locks whose time is over expire, then the requests that
// came in are carried out in their order, including those whose callers have
// left.
func (s *Server) Resume() {
	s.mu.Lock()
	s.paused = false
	backlog := s.backlog
	s.backlog = nil
	s.settleAll()
	s.unlock()
	for _, request := range backlog {
		request()
	}
}

// Fail makes the server refuse every request with err, as for a missing
// permission or a full disk; Fail(nil) ends it. Use it to test that your code
// tells a lock that is held from a server that does not work.
func (s *Server) Fail(err error) {
	s.mu.Lock()
	s.fault = err
	s.unlock()
}

// StepClock moves the server's clock by d, which may be negative. Locks expire
// early or late, as they do at a real server whose clock is corrected. Use it to
// test that two holders at once do no harm behind a [Fence].
func (s *Server) StepClock(d time.Duration) {
	s.mu.Lock()
	s.step += d
	s.settleAll()
	s.unlock()
}

// Held returns the names that are held, sorted. Use it to test that your code
// has released what it acquired.
func (s *Server) Held() []string {
	s.mu.Lock()
	defer s.unlock()
	s.settleAll()
	held := maps.Clone(s.names)
	maps.DeleteFunc(held, func(_ string, e *entry) bool { return e.owner == "" })
	return slices.Sorted(maps.Keys(held))
}

func (s *Server) settleAll() {
	now := s.now()
	for name, e := range s.names {
		s.settle(name, e, now)
	}
}
