package zk

import (
	"context"
	"errors"
	"time"

	gozk "github.com/go-zookeeper/zk"
)

// create makes the node, and returns the queue as it was just then, if it could be
// seen. The node's name carries the attempt, so that it is found again if the answer
// is lost. A call that ctx has left behind says later, by pending, what came of it.
func (d *driver) create(ctx context.Context, p *place) (view, error) {
	for {
		c, err := p.s.await(ctx)
		if err != nil {
			return view{}, err
		}
		pending := make(chan struct{})
		p.pending = pending
		m, err := do(ctx, c, func(*gozk.Conn) (made, error) {
			defer close(pending)
			m, err := d.make(c, p)
			if err == nil {
				p.path = m.path
			} else if broken(err) {
				p.unsure = true
			}
			return m, err
		})
		if errors.As(err, new(unsent)) {
			close(pending)
		}
		switch again, err := p.s.judge(ctx, c, err); {
		case err == nil && !again:
			p.since = m.sent // the creation is a write
			return m.view, nil
		case errors.Is(err, gozk.ErrNoNode):
			if err := d.container(ctx, p.s, p.parent); err != nil {
				return view{}, err
			}
		case err != nil:
			return view{}, err
		case p.unsure:
			if found, err := d.find(ctx, p); err != nil || found {
				return view{}, err
			}
		}
	}
}

// made is what a creation has made, and what was seen behind it.
type made struct {
	view
	sent time.Time
	path string
}

// make creates a node in the queue, and reads the queue in the same trip: a server
// answers what one connection asks in the order of the asking.
func (d *driver) make(c *conn, p *place) (m made, err error) {
	path := p.parent + "/" + nodeName(p.r.Attempt)
	m.sent = time.Now()
	written, seen := c.written(path), make(chan view, 1)
	c.calls.Go(func() {
		var v view
		select {
		case <-written:
			if children, stat, err := c.zk.Children(p.parent); err == nil {
				v = view{children, stat.Pzxid}
			}
		case <-c.lost:
		}
		seen <- v
	})
	m.path, err = c.zk.Create(path, nil, gozk.FlagEphemeralSequential, d.acl)
	if err == nil {
		m.view = <-seen
	}
	return m, err
}

// container makes a node that the server removes again when it has lost its last
// child.
func (d *driver) container(ctx context.Context, s *session, path string) error {
	for {
		_, err := ask(ctx, s, func(zk *gozk.Conn) (string, error) {
			return zk.CreateContainer(path, nil, gozk.FlagContainer, d.acl)
		})
		switch {
		case errors.Is(err, gozk.ErrNodeExists):
			return nil
		case !errors.Is(err, gozk.ErrNoNode):
			return err
		}
		if err := d.container(ctx, s, parentOf(path)); err != nil {
			return err
		}
	}
}

// find looks for a node that a create may have made.
func (d *driver) find(ctx context.Context, p *place) (found bool, err error) {
	children, err := d.children(ctx, p.s, p.parent)
	if err != nil {
		return false, err
	}
	own := of(children, p.r.Attempt)
	if len(own) == 0 {
		return false, nil
	}
	p.path = p.parent + "/" + own[0]
	return true, nil
}
