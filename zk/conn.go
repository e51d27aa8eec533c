package zk

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	gozk "github.com/go-zookeeper/zk"
)

// maxCalls bounds the calls that are on their way on one connection.
const maxCalls = 64

// conn is one connection, with a client of the library that lives no longer. So
// what was asked on it is never sent on a later one, for another session.
type conn struct {
	zk     *gozk.Conn
	wire   *wire
	events <-chan gozk.Event
	lost   chan struct{} // closed when the connection has ended
	slots  chan struct{}

	mu      sync.Mutex
	ended   bool
	calls   sync.WaitGroup // none is added after the end
	watches map[string]map[*watcher]struct{}

	unwritten map[string]chan struct{} // see written; by path
}

// watcher is told of the next change of a node, or of the end of the connection.
type watcher struct{ tell func(deleted bool) }

func newConn(w *wire, timeout time.Duration) (*conn, error) {
	c := &conn{
		wire: w, lost: make(chan struct{}), slots: make(chan struct{}, maxCalls),
		watches: make(map[string]map[*watcher]struct{}), unwritten: make(map[string]chan struct{}),
	}
	w.wrote = c.wrote
	var err error
	c.zk, c.events, err = gozk.Connect([]string{"once"}, timeout,
		gozk.WithHostProvider(new(once)),
		gozk.WithDialer(func(_, _ string, _ time.Duration) (net.Conn, error) { return w, nil }),
		gozk.WithEventCallback(c.event),
		gozk.WithLogger(silent{}), gozk.WithLogInfo(false),
		gozk.WithMaxConnBufferSize(128<<10))
	return c, err
}

// event is called by the library, in the order of events and answers.
func (c *conn) event(e gozk.Event) {
	switch e.Type {
	case gozk.EventSession:
		if e.State == gozk.StateDisconnected {
			c.end()
		}
	case gozk.EventNodeDeleted, gozk.EventNodeDataChanged:
		c.fire(e.Path, e.Type == gozk.EventNodeDeleted)
	}
}

func (c *conn) end() {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	c.ended = true
	all := c.watches
	c.watches = nil
	c.mu.Unlock()
	close(c.lost)
	for _, watchers := range all {
		tell(watchers, false)
	}
}

// cut ends the connection, and not the session.
func (c *conn) cut() { _ = c.wire.Close() }

// close ends the client and waits for all that belongs to it, at most a few
// seconds. With goodBye the server ends the session.
func (c *conn) close(goodBye bool) {
	if !goodBye {
		c.cut()
	}
	c.zk.Close()
	c.cut()
	for range c.events {
	}
	c.end()
	c.calls.Wait()
}

// unsent is the error of a call that has not been made.
type unsent struct{ error }

func (u unsent) Unwrap() error { return u.error }

// do makes a call and returns its answer, or at once when ctx ends: the
// library's calls return when it suits the network. Such a call goes on and ends
// with the connection at the latest.
func do[T any](ctx context.Context, c *conn, f func(*gozk.Conn) (T, error)) (v T, err error) {
	select {
	case c.slots <- struct{}{}:
	case <-c.lost:
		return v, unsent{gozk.ErrConnectionClosed}
	case <-ctx.Done():
		return v, unsent{ctx.Err()}
	}
	type result struct {
		v   T
		err error
	}
	answer := make(chan result, 1)
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		<-c.slots
		return v, unsent{gozk.ErrConnectionClosed}
	}
	c.calls.Go(func() {
		v, err := f(c.zk)
		<-c.slots
		answer <- result{v, err}
	})
	c.mu.Unlock()
	select {
	case r := <-answer:
		return r.v, r.err
	case <-ctx.Done():
		return v, ctx.Err()
	}
}

// written returns what is closed when a request with this path has been written:
// the next one is then behind it, and is answered as it was after it.
func (c *conn) written(path string) <-chan struct{} {
	done := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unwritten[path] = done
	return done
}

func (c *conn) wrote(request []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for path, done := range c.unwritten {
		if bytes.Contains(request, []byte(path)) {
			close(done)
			delete(c.unwritten, path)
		}
	}
}

// watch has w told of the next change of a node. All that watch one node share
// one watch at the server; only the first gets the node's state, and an error.
// The others are told if it fails.
func (c *conn) watch(ctx context.Context, path string, w *watcher) (*gozk.Stat, error) {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return nil, gozk.ErrConnectionClosed
	}
	watchers, armed := c.watches[path]
	if !armed {
		watchers = make(map[*watcher]struct{}, 1)
		c.watches[path] = watchers
	}
	watchers[w] = struct{}{}
	c.mu.Unlock()
	if armed {
		return nil, nil
	}
	stat, err := do(ctx, c, func(zk *gozk.Conn) (*gozk.Stat, error) {
		_, stat, _, err := zk.GetW(path)
		if err != nil {
			c.fire(path, errors.Is(err, gozk.ErrNoNode))
		}
		return stat, err
	})
	if errors.As(err, new(unsent)) {
		c.fire(path, false)
	}
	return stat, err
}

// unwatch forgets w. The watch at the server stays, and serves whoever comes next.
func (c *conn) unwatch(path string, w *watcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.watches[path], w)
}

func (c *conn) fire(path string, deleted bool) {
	c.mu.Lock()
	watchers := c.watches[path]
	delete(c.watches, path)
	c.mu.Unlock()
	tell(watchers, deleted)
}

func tell(watchers map[*watcher]struct{}, deleted bool) {
	for w := range watchers {
		w.tell(deleted)
	}
}

// broken reports whether a call has failed with its connection, so that nobody
// knows whether it had its effect.
func broken(err error) bool {
	for _, b := range []error{
		gozk.ErrConnectionClosed, gozk.ErrClosing, gozk.ErrNoServer, gozk.ErrSessionMoved,
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
	} {
		if errors.Is(err, b) {
			return true
		}
	}
	return errors.As(err, new(net.Error)) && !errors.Is(err, context.DeadlineExceeded)
}

// once is a host provider of one connection: afterwards the library waits to be
// closed.
type once struct{ used bool }

func (o *once) Init([]string) error { return nil }
func (o *once) Len() int            { return 1 }
func (o *once) Connected()          {}
func (o *once) Next() (string, bool) {
	again := o.used
	o.used = true
	return "once", again
}

type silent struct{}

func (silent) Printf(string, ...any) {}
