package zk

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	gozk "github.com/go-zookeeper/zk"
)

// errGone means that a session has ended, or will have at the server before long.
var errGone = errors.New("zk: the session has ended")

// opener is what sessions are made of.
type opener struct {
	servers []string
	dial    dialFunc
	auth    []credential
	timeout time.Duration
}

// session is one session at the ensemble. It is carried by one connection after
// the other until it is closed, has expired, or no server has been heard of for
// its time-out. It is never replaced in place: who works in a session whose
// nodes are gone must know.
type session struct {
	opener
	id       int64
	password []byte
	next     int // index of the server to try
	over     chan struct{}

	mu      sync.Mutex
	conn    *conn         // nil: not connected
	changed chan struct{} // closed when conn or err changes
	err     error         // why the session is over
	timeout time.Duration // as granted
	heard   time.Time     // of a server
	seen    int64         // the latest change of ours that a server has confirmed
}

func newSession(o opener) *session {
	return &session{
		opener: o, over: make(chan struct{}), changed: make(chan struct{}),
		timeout: o.timeout, heard: time.Now(),
	}
}

// run carries the session until ctx ends, which closes it, or it is over.
func (s *session) run(ctx context.Context) {
	var ended sync.WaitGroup
	defer ended.Wait()
	for {
		c, err := s.connect(ctx)
		if err != nil {
			s.end(err)
			return
		}
		s.set(c)
		select {
		case <-c.lost:
			s.set(nil)
			ended.Go(func() { c.close(false) })
		case <-s.over: // a server has said so
			c.close(false)
			return
		case <-ctx.Done():
			s.end(errGone)
			c.close(true)
			return
		}
	}
}

// connect tries one server after the other. A new session that none can give is
// an error at once, or within seconds, in which there may be an election, if they are
// there and not ready.
func (s *session) connect(ctx context.Context) (*conn, error) {
	// There may be a hold to keep and another server to go to, so one is not waited
	// for for long, at first.
	start, patience := time.Now(), 250*time.Millisecond
	if s.id == 0 {
		patience = 2 * time.Second
		if len(s.servers) > 1 {
			patience = min(max(s.granted()/2, time.Second), patience)
		}
	}
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, s.lease()/16, 100*time.Millisecond) {
		ready := false
		var last error
		for range s.servers {
			addr := s.servers[s.next%len(s.servers)]
			s.next++
			c, dialed, err := s.open(ctx, addr, patience)
			if err == nil {
				return c, nil
			}
			if ctx.Err() != nil {
				return nil, errGone
			}
			if errors.As(err, new(final)) {
				return nil, err
			}
			ready = ready || dialed
			last = fmt.Errorf("%s: %w", addr, err)
		}
		switch {
		case s.id == 0 && (!ready || time.Since(start) > 5*time.Second):
			return nil, fmt.Errorf("zk: no server gives a session: %w", last)
		case s.id != 0 && s.silence() > s.granted():
			return nil, fmt.Errorf("%w: no server was heard for its time-out: %w", errGone, last)
		}
		patience = max(patience, min(patience*5/4, s.granted()/8))
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, errGone
		}
	}
}

// final is an error that another server would give as well.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// open makes a connection and takes the session over to it. dialed says whether
// somebody is there.
func (s *session) open(ctx context.Context, addr string, patience time.Duration) (c *conn, dialed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	nc, err := s.dial(ctx, "tcp", addr)
	if err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	h := hello{seen: s.seen, timeout: s.opener.timeout, id: s.id, password: s.password}
	s.mu.Unlock()
	g, err := greet(ctx, nc, h)
	if err == nil && g.id == 0 {
		err = final{fmt.Errorf("%w: it has expired", errGone)}
	}
	if err != nil {
		_ = nc.Close()
		return nil, true, err
	}
	s.hear()
	c, err = newConn(&wire{Conn: nc, most: g.timeout / 2, heard: s.hear, answer: g.raw}, g.timeout)
	if err != nil {
		_ = nc.Close()
		return nil, true, err
	}
	if s.id == 0 && g.timeout != s.opener.timeout {
		c.close(true)
		return nil, true, final{fmt.Errorf("zk: the server grants a session time-out of %v where TTL(%v) asks for another: "+
			"ask for %[1]v, or change its minSessionTimeout and maxSessionTimeout", g.timeout, s.opener.timeout)}
	}
	for _, a := range s.auth {
		_, err := do(ctx, c, func(zk *gozk.Conn) (struct{}, error) { return struct{}{}, zk.AddAuth(a.scheme, a.auth) })
		if err != nil {
			c.close(s.id == 0)
			err = fmt.Errorf("zk: authentication by %q: %w", a.scheme, err)
			if errors.Is(err, gozk.ErrAuthFailed) {
				err = final{err}
			}
			return nil, true, err
		}
	}
	s.mu.Lock()
	s.id, s.password, s.timeout = g.id, g.password, g.timeout
	s.mu.Unlock()
	return c, true, nil
}

// await returns a connection that works as far as anybody knows.
func (s *session) await(ctx context.Context) (*conn, error) {
	for {
		s.mu.Lock()
		c, changed, err := s.conn, s.changed, s.err
		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if c != nil {
			select {
			case <-c.lost: // run is about to notice
			default:
				return c, nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ask makes a call that may be repeated, again on the next connection if its own
// has ended.
func ask[T any](ctx context.Context, s *session, f func(*gozk.Conn) (T, error)) (v T, err error) {
	for {
		c, err := s.await(ctx)
		if err != nil {
			return v, err
		}
		v, err = do(ctx, c, f)
		if again, err := s.judge(ctx, c, err); !again {
			return v, err
		}
	}
}

// judge says whether a call on c may be repeated on the next connection.
func (s *session) judge(ctx context.Context, c *conn, err error) (again bool, _ error) {
	switch {
	case err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return false, err
	case errors.Is(err, gozk.ErrSessionExpired):
		err = fmt.Errorf("%w: %w", errGone, err)
		s.end(err)
		return false, err
	case !broken(err):
		return false, err
	}
	c.cut()
	select {
	case <-c.lost:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// suspect leaves the server if it has said nothing since then, and if there is
// another one, which may still save the holds.
func (s *session) suspect(since time.Time) {
	if len(s.servers) == 1 {
		return
	}
	s.mu.Lock()
	c, silent := s.conn, s.heard.Before(since)
	s.mu.Unlock()
	if c != nil && silent {
		c.cut()
	}
}

func (s *session) set(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = c
	s.change()
}

// end ends the session here. What it has at the server ends when it is closed
// there or expires.
func (s *session) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	if s.id != 0 && !errors.Is(err, errGone) {
		err = fmt.Errorf("%w: %w", errGone, err)
	}
	s.err, s.conn = err, nil
	s.change()
	close(s.over)
}

func (s *session) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *session) ended() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

func (s *session) hear() {
	s.mu.Lock()
	s.heard = time.Now()
	s.mu.Unlock()
}

func (s *session) silence() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.heard)
}

// saw notes a change of ours: a server that does not know it yet must not answer us.
func (s *session) saw(zxid int64) {
	s.mu.Lock()
	s.seen = max(s.seen, zxid)
	s.mu.Unlock()
}

func (s *session) granted() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timeout
}

// lease is how long a hold lasts after the sending of a confirmed write. The
// leader hears of a session that its server has heard from only with their
// next exchange, and the write itself does not count there; half the time-out
// leaves room for both.
func (s *session) lease() time.Duration { return s.granted() / 2 }

func (s *session) identity() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)
