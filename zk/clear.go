package zk

import (
	"context"
	"errors"

	gozk "github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock"
)

// clearing removes what an attempt has at the server. It goes on until that is
// done or the session, and with it the node, has ended.
type clearing struct {
	done chan struct{}
	err  error // nil: removed by us. ErrLost: it was gone. errGone: with the session. Else it may be tried again
}

func (c *clearing) wait(ctx context.Context) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// clear starts the clearing of a place, or joins it.
func (d *driver) clear(p *place) *clearing {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.clearing == nil {
		d.active--
		if p.guard != nil {
			p.guard.Stop()
		}
		d.sweep(p)
		return p.clearing
	}
	select {
	case <-p.clearing.done:
		if err := p.clearing.err; err != nil && !errors.Is(err, fencelock.ErrLost) && !errors.Is(err, errGone) {
			d.sweep(p)
		}
	default:
	}
	return p.clearing
}

// sweep starts one attempt at the clearing; d.mu is held.
func (d *driver) sweep(p *place) {
	c := &clearing{done: make(chan struct{})}
	p.clearing = c
	d.crew.Go(func() {
		c.err = p.remove(d)
		if c.err == nil || errors.Is(c.err, fencelock.ErrLost) || errors.Is(c.err, errGone) {
			d.mu.Lock()
			if d.places[p.r.Attempt] == p {
				delete(d.places, p.r.Attempt)
			}
			d.mu.Unlock()
		}
		close(c.done)
	})
}

// remove needs no ctx: its calls end with the session.
func (p *place) remove(d *driver) error {
	select {
	case <-p.pending: // it must not overtake the creation
	case <-p.s.over:
		return errGone
	}
	if p.unsure {
		return p.removeAll(d)
	}
	if p.path == "" {
		return nil
	}
	for ctx, sure := context.Background(), true; ; sure = false {
		c, err := p.s.await(ctx)
		if err != nil {
			return err
		}
		_, err = do(ctx, c, func(zk *gozk.Conn) (struct{}, error) { return struct{}{}, zk.Delete(p.path, -1) })
		again, err := p.s.judge(ctx, c, err)
		switch {
		case again:
		case errors.Is(err, gozk.ErrNoNode) && !sure:
			return nil // removed by a call whose answer was lost
		case errors.Is(err, gozk.ErrNoNode):
			return &fencelock.LostError{Reason: fencelock.Deleted}
		default:
			return err
		}
	}
}

// removeAll removes whatever nodes carry the attempt's id.
func (p *place) removeAll(d *driver) error {
	ctx, removed := context.Background(), false
	children, err := d.children(ctx, p.s, p.parent)
	if err != nil {
		return err
	}
	for _, own := range of(children, p.r.Attempt) {
		_, err := ask(ctx, p.s, func(zk *gozk.Conn) (struct{}, error) {
			return struct{}{}, zk.Delete(p.parent+"/"+own, -1)
		})
		if err != nil && !errors.Is(err, gozk.ErrNoNode) {
			return err
		}
		removed = true
	}
	if !removed && p.path != "" {
		return &fencelock.LostError{Reason: fencelock.Deleted}
	}
	return nil
}
