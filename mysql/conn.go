package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/option"
	"github.com/fencelock/fencelock/internal/session"
	"github.com/fencelock/fencelock/internal/sqlkit"
)

const (
	// glance is how often a session is asked whether it still lives: database/sql
	// does not say when an idle connection ends.
	glance = 300 * time.Millisecond
	// slice is how long one statement waits at most. Shorter ones would put a
	// waiter at the end of the server's queue too often.
	slice = 30 * time.Second
)

// sessions is the lease.Driver of NewAdvisory and NewRow.
type sessions struct {
	*session.Driver
	tables
	pool
	seats seats
	ttl   time.Duration
	styleOfSessions
}

// styleOfSessions is what GET_LOCK and locked rows do not share.
type styleOfSessions struct {
	wrap func(*conn) session.Session
	scan func(context.Context, *sessions, []sqlkit.Key) (int, error)
}

func newSessions(s settings, style styleOfSessions) *sessions {
	d := &sessions{tables: s.tables, pool: s.pool, ttl: s.TTL, styleOfSessions: style}
	if most := s.db.Stats().MaxOpenConnections; most > 0 {
		d.seats.places = make(chan struct{}, most-1)
	}
	d.Driver = session.New(s.TTL, func(ctx context.Context) (session.Session, error) {
		c, err := d.connect(ctx)
		if err != nil {
			return nil, err
		}
		return style.wrap(c), nil
	})
	return d
}

// fixTTL makes TTL an option of New's only: the server ends a silent session
// after it.
func fixTTL(s *option.Set) { s.Fix(option.TTL) }

// seats keeps one connection of a bounded pool for minting and for ending
// sessions; else sessions that each wait for another connection would have all of
// them.
type seats struct {
	places chan struct{} // nil: the pool is not bounded
	wanted atomic.Int32  // how many wait for one
}

func (s *seats) take(ctx context.Context) error {
	if s.places == nil {
		return nil
	}
	s.wanted.Add(1)
	defer s.wanted.Add(-1)
	select {
	case s.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *seats) give() {
	if s.places != nil {
		<-s.places
	}
}

// conn is a connection of the pool that is ours until its end, with what
// GET_LOCK and locked rows share of a session.Session.
type conn struct {
	*sessions
	db     *sql.Conn
	id     string        // tells it from all others, by a GET_LOCK
	turn   chan struct{} // capacity 1: held during a statement
	broken chan struct{}
	quit   chan struct{} // closed by Close
	over   sync.WaitGroup

	mu     sync.Mutex
	cancel context.CancelFunc // of the statement on its way
	ended  bool               // broken is closed
	closed bool               // quit is closed
	parted bool               // the connection has been given back
	dirty  bool               // the session may hold a lock or wait for one
}

// connect takes a connection out of the pool for good.
func (d *sessions) connect(ctx context.Context) (*conn, error) {
	if err := d.seats.take(ctx); err != nil {
		return nil, err
	}
	db, err := d.pool.db.Conn(ctx)
	if err != nil {
		d.seats.give()
		return nil, failure(ctx, err)
	}
	c := &conn{
		sessions: d,
		db:       db,
		id:       randomID(),
		turn:     make(chan struct{}, 1),
		broken:   make(chan struct{}),
		quit:     make(chan struct{}),
	}
	if err := c.prepare(ctx); err != nil {
		c.part()
		return nil, err
	}
	c.over.Go(c.watch)
	return c, nil
}

// prepare makes the session one that the server ends after the TTL of silence.
// The settings go with the connection, which nobody else gets.
func (c *conn) prepare(ctx context.Context) error {
	for _, set := range []string{
		fmt.Sprintf("SET SESSION wait_timeout = %.0f, innodb_lock_wait_timeout = 1, autocommit = 1", math.Ceil(c.ttl.Seconds())),
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
	} {
		if _, err := c.exec(ctx, set); err != nil {
			return err
		}
	}
	var name, galera string
	if err := c.row(ctx, "SHOW SESSION VARIABLES LIKE 'wsrep_on'", &name, &galera); err == nil && strings.EqualFold(galera, "ON") {
		return errors.New("the server is a node of a Galera cluster, whose nodes do not know of each other's session locks: use NewLease")
	} else if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	var got sql.NullInt64
	if err := c.row(ctx, "SELECT GET_LOCK('"+markerOf(c.id)+"', 0)", &got); err != nil || got.Int64 != 1 {
		return errors.Join(errors.New("GET_LOCK is refused"), err)
	}
	return nil
}

// use runs f with a ctx that also ends with Close, one at a time. What is no
// answer of the server's is the end of the connection.
func (c *conn) use(ctx context.Context, f func(ctx context.Context) error) error {
	select {
	case c.turn <- struct{}{}:
	case <-c.quit:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.turn }()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return errClosed
	}
	c.cancel = cancel
	c.mu.Unlock()
	err := f(inner)
	if err != nil && number(err) == 0 && !errors.Is(err, sql.ErrNoRows) {
		c.end()
	}
	if ctx.Err() == nil && inner.Err() != nil {
		err = errClosed
	}
	return err
}

var errClosed = errors.New("the session has been closed")

func (c *conn) exec(ctx context.Context, text string) (word uint64, err error) {
	err = c.use(ctx, func(ctx context.Context) error {
		word, err = exec(ctx, c.db, text)
		return err
	})
	return word, err
}

func (c *conn) row(ctx context.Context, text string, dest ...any) error {
	return c.use(ctx, func(ctx context.Context) error { return row(ctx, c.db, text, dest...) })
}

// retrying runs statements of ours that commit by themselves.
type retrying struct{ *conn }

func (r retrying) exec(ctx context.Context, text string) (word uint64, err error) {
	err = sqlkit.Retry(ctx, again, func() error {
		word, err = r.conn.exec(ctx, text)
		return err
	})
	return word, err
}

// Ping implements session.Session.
func (c *conn) Ping(ctx context.Context) error {
	return c.use(ctx, func(ctx context.Context) error {
		err := c.db.PingContext(ctx)
		if err != nil {
			c.end()
		}
		return err
	})
}

// Broken implements session.Session.
func (c *conn) Broken() <-chan struct{} { return c.broken }

func (c *conn) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.ended = true
		close(c.broken)
	}
}

// watch asks the session whether it lives, unless a statement is on its way,
// which will tell.
func (c *conn) watch() {
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.broken:
			return
		case <-c.quit:
			return
		}
		if len(c.turn) == 0 {
			_ = c.Ping(context.Background()) // ends with the reply, or by Close
		}
	}
}

// soil says that the session may hold a lock from now on.
func (c *conn) soil() {
	c.mu.Lock()
	c.dirty = true
	c.mu.Unlock()
}

// clean says that it certainly holds none. It rests then, unless another one
// waits for its seat.
func (c *conn) clean() {
	c.mu.Lock()
	c.dirty = false
	cancel := c.cancel
	c.mu.Unlock()
	if c.seats.wanted.Load() > 0 {
		c.end()
		cancel() // of a ping
		c.part()
	}
}

// Close implements session.Session.
func (c *conn) Close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.quit)
		if c.cancel != nil {
			c.cancel()
		}
	}
	c.mu.Unlock()
	c.over.Wait()
	c.end()
	select {
	case c.turn <- struct{}{}: // the statement on its way has returned
	case <-ctx.Done():
		return ctx.Err()
	}
	c.part()
	<-c.turn
	c.mu.Lock()
	dirty := c.dirty
	c.mu.Unlock()
	if dirty {
		if _, err := c.kill(ctx, markerOf(c.id)); err != nil {
			return err
		}
		c.clean()
	}
	return nil
}

// part closes the connection. It must not go back to the pool with our settings
// and perhaps a lock.
func (c *conn) part() {
	c.mu.Lock()
	parted := c.parted
	c.parted = true
	c.mu.Unlock()
	if parted {
		return
	}
	_ = c.db.Raw(func(any) error { return driver.ErrBadConn })
	_ = c.db.Close()
	c.seats.give()
}

// markerOf is what a session locks for as long as it lives.
func markerOf(id string) string { return "fencelock-session-" + id }

// kill returns when the server has certainly ended a session, and says whether there
// was one. A number of a connection may mean another one after a restart; the
// marker does not.
func (d *sessions) kill(ctx context.Context, marker string) (found bool, err error) {
	for {
		var id sql.NullInt64
		if err := d.pool.row(ctx, "SELECT IS_USED_LOCK('"+marker+"')", &id); err != nil || !id.Valid {
			return found, err
		}
		found = true
		if _, err := d.pool.exec(ctx, fmt.Sprintf("KILL CONNECTION %d", id.Int64)); err != nil && number(err) != errNoThread {
			return found, err
		}
		if !sleep(ctx, time.Millisecond) {
			return found, ctx.Err()
		}
	}
}

// vanished is the error of an Unlock in a session that has ended: the lock had
// gone with it, unless the ctx has cut the session off just now.
func vanished(ctx context.Context, err error) error {
	if err == nil || number(err) != 0 || ctx.Err() != nil || errors.Is(err, errClosed) {
		return err
	}
	return &fencelock.LostError{Reason: fencelock.SessionGone, Cause: err}
}

// unfit releases what was locked before it turned out that no token can be
// minted, and is not told to others who wait.
func unfit(err error, unlock error) error {
	if lease.IsDefinite(err) && unlock != nil {
		return fmt.Errorf("%w, and the lock could not be released: %v", unlock, err)
	}
	return err
}
