package zk

import (
	"context"
	"errors"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock"
)

// guardAfter is how long a node lives before it is watched for its own sake: most
// are gone by then and cost nothing.
const guardAfter = 250 * time.Millisecond

func (d *driver) watchLater(p *place) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.clearing != nil {
		return
	}
	p.guard = time.AfterFunc(guardAfter, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if p.clearing == nil {
			d.crew.Go(func() { _, _ = d.know(context.Background(), p) }) // else the next renewal does
		}
	})
}

// know watches p's own node, once a connection, and makes sure that it is ours.
func (d *driver) know(ctx context.Context, p *place) (*gozk.Stat, error) {
	for {
		c, err := p.s.await(ctx)
		if err != nil {
			return nil, err
		}
		stat, err := c.watch(ctx, p.path, &watcher{func(deleted bool) {
			p.watched.CompareAndSwap(c, nil)
			if deleted {
				select {
				case p.deleted <- struct{}{}:
				default:
				}
				d.lose(p.r, fencelock.LostError{Reason: fencelock.Deleted})
				d.clear(p)
			}
		}})
		if err == nil && stat == nil { // somebody here watches it, too
			stat, err = look(ctx, p.s, p.path)
		}
		if again, err := p.s.judge(ctx, c, err); again {
			continue
		} else if errors.Is(err, gozk.ErrNoNode) {
			return nil, &fencelock.LostError{Reason: fencelock.Deleted}
		} else if err != nil {
			return nil, err
		}
		if stat.EphemeralOwner != p.s.identity() {
			// A node of a session that is ending: held by it, the lock would go at once.
			return nil, &fencelock.LostError{Reason: fencelock.SessionGone}
		}
		p.watched.Store(c)
		return stat, nil
	}
}

// watchAgain sets the watch of a held node anew after a change of connection.
func (d *driver) watchAgain(ctx context.Context, p *place) {
	p.s.mu.Lock()
	c := p.s.conn
	p.s.mu.Unlock()
	if c != nil && c != p.watched.Load() {
		_, _ = d.know(ctx, p)
	}
}
