package zk

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

// place is what one attempt has in a session: a node in the queue of its name, or
// nothing yet.
type place struct {
	s       *session
	r       lease.Request
	parent  string
	since   time.Time // sending of the last confirmed write
	zxid    int64     // of the node's creation, or of a later change that came before all nodes behind it
	watched atomic.Pointer[conn]
	guard   *time.Timer   // starts the watch of its own node; guarded by driver.mu
	deleted chan struct{} // receives when the node was seen to be gone

	pending chan struct{} // closed when no create is on its way; what follows may be read then
	path    string        // of the node, "" if there is none
	unsure  bool          // there may be nodes whose creation nobody has confirmed

	clearing *clearing // guarded by driver.mu
}

// enter gives an attempt a place in the current session.
func (d *driver) enter(r lease.Request) *place {
	none := make(chan struct{})
	close(none)
	p := &place{
		r: r, parent: d.parent(r.Key),
		deleted: make(chan struct{}, 1), pending: none,
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p.s = d.current()
	if before := d.places[r.Attempt]; before != nil && before.clearing == nil {
		d.active-- // of a session that has ended
	}
	d.places[r.Attempt] = p
	d.active++
	return p
}

// forget drops a place that has nothing at the server.
func (d *driver) forget(p *place) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.places[p.r.Attempt] == p {
		delete(d.places, p.r.Attempt)
		d.active--
	}
}

// failed marks the error of an attempt that has left nothing.
func (d *driver) failed(p *place, err error) error {
	select {
	case <-p.pending:
		if p.path == "" && !p.unsure {
			d.forget(p)
			return lease.Definite(err)
		}
	default:
	}
	return err
}

// queue makes the node and says which one is ahead of it, "" if none is.
func (d *driver) queue(ctx context.Context, p *place) (next string, err error) {
	seen, err := d.create(ctx, p)
	if err != nil {
		return "", err
	}
	if p.zxid = seen.token(p.node()); p.zxid == 0 {
		stat, err := d.know(ctx, p)
		if err != nil {
			return "", err
		}
		p.zxid = stat.Czxid
	}
	p.s.saw(p.zxid)
	// No use to wait for what cannot be granted.
	if _, _, err = block(p.zxid, p.r.Min, 1); err != nil {
		return "", err
	}
	d.watchLater(p)
	if slices.Contains(seen.children, p.node()) {
		return d.ahead(ctx, p, seen.children)
	}
	return d.stand(ctx, p)
}

// node returns the name of p's node.
func (p *place) node() string { return p.path[len(p.parent)+1:] }

// children reads a queue as it is now, not as this server last heard.
func (d *driver) children(ctx context.Context, s *session, parent string) ([]string, error) {
	if _, err := ask(ctx, s, func(zk *gozk.Conn) (string, error) { return zk.Sync(parent) }); err != nil {
		return nil, err
	}
	return queued(ctx, s, parent)
}

// queued reads a queue. What a server answers behind a write of this session is
// at least as late as that write.
func queued(ctx context.Context, s *session, parent string) ([]string, error) {
	children, err := ask(ctx, s, func(zk *gozk.Conn) ([]string, error) {
		children, _, err := zk.Children(parent)
		return children, err
	})
	if errors.Is(err, gozk.ErrNoNode) {
		return nil, nil
	}
	return children, err
}

// taken reports whether anybody is in the queue.
func (d *driver) taken(ctx context.Context, p *place) (bool, error) {
	children, err := queued(ctx, p.s, p.parent)
	if _, n := front(children); err != nil || n == 0 {
		return false, err
	}
	// The server may not have heard of a release yet.
	children, err = d.children(ctx, p.s, p.parent)
	_, n := front(children)
	return n > 0, err
}

// stand asks which node is ahead of p's.
func (d *driver) stand(ctx context.Context, p *place) (next string, err error) {
	children, err := queued(ctx, p.s, p.parent)
	if err != nil {
		return "", err
	}
	if !slices.Contains(children, p.node()) {
		return "", &fencelock.LostError{Reason: fencelock.Deleted}
	}
	return d.ahead(ctx, p, children)
}

// ahead returns the child that is ahead of p's node, "" if none is: then none ever
// will be.
func (d *driver) ahead(ctx context.Context, p *place, children []string) (next string, err error) {
	next = ahead(children, p.node())
	var latest int64
	for _, tie := range tied(children, p.node()) {
		// The counter has come to its end. What is created first comes first.
		zxid, err := created(ctx, p.s, p.parent+"/"+tie)
		if err != nil {
			return "", err
		}
		if zxid < p.zxid && zxid > latest {
			next, latest = tie, zxid
		}
	}
	return next, nil
}

// created returns the change that created a node, 0 if it is gone.
func created(ctx context.Context, s *session, path string) (zxid int64, err error) {
	stat, err := look(ctx, s, path)
	if errors.Is(err, gozk.ErrNoNode) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return stat.Czxid, nil
}

func look(ctx context.Context, s *session, path string) (*gozk.Stat, error) {
	return ask(ctx, s, func(zk *gozk.Conn) (*gozk.Stat, error) {
		_, stat, err := zk.Get(path)
		return stat, err
	})
}

// wait waits for a change of the node that is ahead.
func (d *driver) wait(ctx context.Context, p *place, next string) error {
	c, err := p.s.await(ctx)
	if err != nil {
		return err
	}
	changed, path := make(chan struct{}, 1), p.parent+"/"+next
	w := &watcher{func(bool) { changed <- struct{}{} }} // told once
	_, err = c.watch(ctx, path, w)
	defer c.unwatch(path, w)
	if again, err := p.s.judge(ctx, c, err); again || errors.Is(err, gozk.ErrNoNode) {
		return nil // look again
	} else if err != nil {
		return err
	}
	select {
	case <-changed:
		return nil
	case <-p.deleted:
		return &fencelock.LostError{Reason: fencelock.Deleted}
	case <-p.s.over:
		return errGone
	case <-ctx.Done():
		return ctx.Err()
	}
}

// confirm has the leader check that the node and its session live.
func (d *driver) confirm(ctx context.Context, p *place) error {
	sent, bad, err := check(ctx, p.s, []string{p.path})
	switch {
	case bad >= 0:
		return &fencelock.LostError{Reason: fencelock.Deleted}
	case err == nil:
		p.since = sent
	}
	return err
}

// maxChecks bounds the nodes that one write checks.
const maxChecks = 100

// check has the leader check that all nodes exist, by a write that changes
// nothing and so wakes nobody. bad is the index of the first one that does not, or
// -1.
func check(ctx context.Context, s *session, paths []string) (sent time.Time, bad int, err error) {
	ops := make([]any, len(paths))
	for i, path := range paths {
		ops[i] = &gozk.CheckVersionRequest{Path: path, Version: -1}
	}
	type answer struct {
		sent    time.Time
		results []gozk.MultiResponse
	}
	a, err := ask(ctx, s, func(zk *gozk.Conn) (answer, error) {
		sent := time.Now()
		results, err := zk.Multi(ops...)
		return answer{sent, results}, err
	})
	if errors.Is(err, gozk.ErrNoNode) {
		for i, r := range a.results {
			if errors.Is(r.Error, gozk.ErrNoNode) {
				return a.sent, i, err
			}
		}
	}
	return a.sent, -1, err
}
