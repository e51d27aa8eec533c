package pg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// slice is how long a statement waits for a lock. While it does, it keeps CREATE
// INDEX CONCURRENTLY and the like waiting; each new one joins the server's queue
// at its end.
var slice = 30 * time.Second

// quiet is how long nothing has been sent before the connection is watched: when
// lock and unlock follow each other closely, a broken one shows by them.
const quiet = 2 * time.Millisecond

// conn is a connection of our own, never lent to anybody. It is watched while it
// is not used, so that its end is noticed at once, and its end can be made
// certain.
type conn struct {
	db     *database
	c      *pgx.Conn
	pid    int64
	name   string // its application_name, which no other connection ever has
	doubt  bool   // the server may have something that must not stay; for who has the turn
	turn   chan struct{}
	broken chan struct{} // closed when c is seen to have ended
	seen   sync.Once
	timer  *time.Timer // starts watch

	mu     sync.Mutex
	over   bool               // Close was called
	wanted int                // who waits for the turn and needs no watching
	stop   context.CancelFunc // ends what has the turn
}

// nameOf returns the name of a session by its connection.
func nameOf(c *pgx.Conn) string { return c.PgConn().ParameterStatus("application_name") }

var errOver = errors.New("the session has been closed")

// connect opens a connection for a session of some style. If it falls silent for
// ttl, the server ends it.
func (d *database) connect(ctx context.Context, style string, ttl time.Duration) (*conn, error) {
	c := &conn{
		db: d, name: "fencelock " + style + " " + rand.Text(),
		turn: make(chan struct{}, 1), broken: make(chan struct{}),
	}
	var connected atomic.Bool
	pc, err := d.dial(ctx, func(cc *pgx.ConnConfig) {
		cc.RuntimeParams["application_name"] = c.name
		dial := cc.DialFunc
		cc.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if connected.Load() {
				// Not for a request to cancel what runs: in a network that is gone it would keep
				// a goroutine for long. Close ends the session by other means.
				return nil, errOver
			}
			return dial(ctx, network, addr)
		}
		// Others would make a statement outlive its ctx.
		cc.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()}
		}
	})
	if err != nil {
		if end, bound := ctx.Deadline(); bound && time.Now().After(end) {
			<-ctx.Done() // the dialer has noticed it first
		}
		return nil, fmt.Errorf("a connection of our own: %w", err)
	}
	connected.Store(true)
	c.c = pc
	if c.pid, err = d.settle(ctx, pc, c.name, ttl); err != nil {
		_ = pc.Close(ctx)
		<-pc.PgConn().CleanupDone()
		return nil, err
	}
	c.timer = time.AfterFunc(quiet, c.watch)
	return c, nil
}

// settle makes the settings of a session and returns the process that serves it.
// Nothing is changed before it is certain that the process is ours alone.
func (d *database) settle(ctx context.Context, pc *pgx.Conn, name string, ttl time.Duration) (int64, error) {
	ms := func(d time.Duration) string { return strconv.FormatInt(max(1, d.Milliseconds()), 10) }
	s := func(d time.Duration) string { return strconv.FormatInt(max(1, int64(d/time.Second)), 10) }
	settings := [][2]string{
		{"application_name", name},
		// A client that has fallen silent must not keep its lock (the first: PostgreSQL 14).
		{"idle_session_timeout", ms(ttl)},
		{"idle_in_transaction_session_timeout", ms(ttl)},
		{"tcp_user_timeout", ms(ttl)},
		{"tcp_keepalives_idle", s(ttl / 3)},
		{"tcp_keepalives_interval", s(ttl / 6)},
		{"tcp_keepalives_count", "3"},
		// A client that has gone must not stay in a queue (14).
		{"client_connection_check_interval", ms(min(ttl/3, time.Second))},
		{"lock_timeout", ms(slice)},
		{"statement_timeout", ms(slice + 30*time.Second)}, // nothing else takes nearly as long
		{"transaction_timeout", "0"},                      // a lock may be held for longer
		{"default_transaction_isolation", "read committed"},
	}
	var names, values []string
	for _, kv := range settings {
		names, values = append(names, kv[0]), append(values, kv[1])
	}
	pid := int64(pc.PgConn().PID())
	for {
		var serving int64
		err := pc.QueryRow(ctx, d.t.sql("settings.sql"), pgx.QueryExecModeExec, pid, names, values).Scan(&serving, nil)
		if err != nil || serving == pid {
			return pid, err
		}
		if pid, err = d.pooledBySession(ctx, pc); err != nil {
			return 0, err
		}
	}
}

// do gives the connection to f, which must obey its ctx.
func (c *conn) do(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.timer.Stop()
	err := c.take(ctx)
	if err == nil {
		err = errOver
		if c.use(cancel) {
			err = f(ctx)
		}
		c.give()
	}
	if !c.gone() {
		c.timer.Reset(quiet)
	}
	return err
}

// take waits for the turn: not for long, since it stops what has it.
func (c *conn) take(ctx context.Context) error {
	c.mu.Lock()
	c.wanted++
	if c.stop != nil {
		c.stop()
	}
	c.mu.Unlock()
	var err error
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		err = ctx.Err()
	}
	c.mu.Lock()
	c.wanted--
	c.mu.Unlock()
	return err
}

// use says how to stop what now has the turn; false: it is not to start.
func (c *conn) use(stop context.CancelFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.wanted > 0 {
		return false
	}
	c.stop = stop
	return true
}

func (c *conn) give() {
	c.mu.Lock()
	c.stop = nil
	c.mu.Unlock()
	if c.c.IsClosed() {
		c.seen.Do(func() { close(c.broken) })
	}
	<-c.turn
}

func (c *conn) gone() bool {
	select {
	case <-c.broken:
		return true
	default:
		return false
	}
}

// watch reads what the server says unasked: that it ends the session. The timer
// runs it, and whoever takes the turn from it waits for its end.
func (c *conn) watch() {
	select {
	case c.turn <- struct{}{}:
	default:
		return // it is used, and the timer set again afterwards
	}
	defer c.give()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if !c.use(cancel) {
		return
	}
	for ctx.Err() == nil && !c.c.IsClosed() {
		_ = c.c.PgConn().WaitForNotification(ctx)
	}
}

// Broken implements session.Session.
func (c *conn) Broken() <-chan struct{} { return c.broken }

// Close implements session.Session.
func (c *conn) Close(ctx context.Context) error {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.timer.Stop()
	if err := c.take(ctx); err != nil {
		return err
	}
	defer c.give()
	_ = c.c.Close(ctx) // says good-bye, if that is still possible
	select {
	case <-c.c.PgConn().CleanupDone():
	case <-ctx.Done():
		return ctx.Err()
	}
	if !c.doubt {
		return nil
	}
	err := c.terminate(ctx)
	c.doubt = err != nil
	return err
}

// terminate ends the session at the server and waits until it has gone, and its
// locks with it: the server need not have noticed that we have left.
func (c *conn) terminate(ctx context.Context) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for d := time.Millisecond; ; d = min(2*d, 50*time.Millisecond) {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		var left int
		// The process alone might be another's by now.
		_, err := c.db.row(ctx, c.db.t.sql("terminate.sql"), []any{c.pid, c.name}, &left)
		if err != nil || left == 0 {
			return err
		}
		pause.Reset(d)
	}
}
