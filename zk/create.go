package zk

import (
	"context"
	"errors"
	"time"

	gozk "github.com/go-zookeeper/zk"
)

// create makes the node. Its name carries the attempt, so that it is found again
// if the answer is lost. A call that ctx has left behind says later, by pending,
// what came of it.
func (d *driver) create(ctx context.Context, p *place) error {
	for {
		c, err := p.s.await(ctx)
		if err != nil {
			return err
		}
		pending := make(chan struct{})
		p.pending = pending
		m, err := do(ctx, c, func(zk *gozk.Conn) (made, error) {
			defer close(pending)
			m, err := d.make(zk, p.parent, p.parent+"/"+nodeName(p.r.Attempt))
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
			p.since, p.zxid = m.sent, m.zxid // the creation is a write
			return nil
		case errors.Is(err, gozk.ErrNoNode):
			if err := d.container(ctx, p.s, p.parent); err != nil {
				return err
			}
		case err != nil:
			return err
		case p.unsure:
			if found, err := d.find(ctx, p); err != nil || found {
				return err
			}
		}
	}
}

// made is what a creation has made.
type made struct {
	sent time.Time
	path string
	zxid int64 // 0 if the answer does not say
}

// make creates a node in the queue. A change of the parent in the same step says
// which zxid that had, unless we may not change the parent. (The parent's Pzxid
// would cost less, but a server does not move it once the numbers have come to
// their end.)
func (d *driver) make(zk *gozk.Conn, parent, path string) (m made, err error) {
	m.sent = time.Now()
	if !d.modest.Load() {
		results, err := zk.Multi(
			&gozk.CreateRequest{Path: path, Acl: d.acl, Flags: gozk.FlagEphemeralSequential},
			&gozk.SetDataRequest{Path: parent, Version: -1})
		switch {
		case err == nil && len(results) == 2:
			m.path, m.zxid = results[0].String, results[1].Stat.Mzxid
			return m, nil
		case len(results) < 2 || !errors.Is(results[1].Error, gozk.ErrNoAuth):
			return m, err
		}
		d.modest.Store(true)
	}
	m.path, err = zk.Create(path, nil, gozk.FlagEphemeralSequential, d.acl)
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
