package zk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

// driver implements lease.Driver, lease.Queuer and lease.Idler.
type driver struct {
	opener
	prefix string
	tree   tree
	acl    []gozk.ACL
	lose   func(lease.Request, fencelock.LostError) // tells the engine of a deleted node

	crew sync.WaitGroup // of sessions and clean-ups

	mu     sync.Mutex
	open   *carried          // nil: none
	places map[string]*place // by attempt
	active int               // places that are not being cleared
}

// carried is a session and who carries it.
type carried struct {
	*session
	stop context.CancelFunc
	done chan struct{} // closed when nobody does any more
}

// Try implements lease.Driver. It looks before it writes, so that a refusal
// leaves no trace, and wakes nobody.
func (d *driver) Try(ctx context.Context, r lease.Request) (lease.Grant, error) {
	g, err := d.try(ctx, r)
	if errors.Is(err, errGone) && ctx.Err() == nil {
		g, err = d.try(ctx, r) // the session had ended, unnoticed, before
	}
	return g, err
}

func (d *driver) try(ctx context.Context, r lease.Request) (lease.Grant, error) {
	p := d.enter(r)
	taken, err := d.taken(ctx, p)
	switch {
	case err != nil:
		d.forget(p)
		return lease.Grant{}, lease.Definite(err)
	case taken:
		d.forget(p)
		return lease.Grant{}, &fencelock.HeldError{}
	}
	next, err := d.queue(ctx, p)
	switch {
	case err != nil:
		return lease.Grant{}, d.failed(p, err)
	case next != "":
		if err := d.clear(p).wait(ctx); err != nil {
			return lease.Grant{}, err
		}
		return lease.Grant{}, &fencelock.HeldError{}
	}
	return d.grant(ctx, p)
}

// Queue implements lease.Queuer. A process that waits watches the one ahead of it,
// and its own node.
func (d *driver) Queue(ctx context.Context, r lease.Request) (lease.Grant, error) {
	p := d.enter(r)
	next, err := d.queue(ctx, p)
	for err == nil && next != "" {
		r.Refused(0)
		if err = d.wait(ctx, p, next); err == nil {
			next, err = d.again(ctx, p)
		}
	}
	if err == nil {
		return d.grant(ctx, p)
	}
	if err = d.failed(p, err); errors.Is(err, errGone) {
		// The attempt has gone with its session. A fresh one may succeed.
		err = &fencelock.LostError{Reason: fencelock.SessionGone, Cause: err}
	}
	return lease.Grant{}, err
}

// again asks where p stands after something has changed ahead of it. If the last
// confirmed write was long ago, another one confirms at the same time that it
// stands there at all.
func (d *driver) again(ctx context.Context, p *place) (next string, err error) {
	if time.Since(p.since) < p.s.lease()/4 {
		return d.stand(ctx, p)
	}
	confirmed := make(chan error, 1)
	go func() { confirmed <- d.confirm(ctx, p) }()
	next, err = d.stand(ctx, p)
	if e := <-confirmed; err == nil {
		err = e
	}
	return next, err
}

// grant makes a grant of a place at the front of the queue.
func (d *driver) grant(ctx context.Context, p *place) (g lease.Grant, err error) {
	if p.since.IsZero() {
		if err := d.confirm(ctx, p); err != nil {
			return g, err
		}
	}
	g = lease.Grant{Since: p.since, TTL: p.s.lease(), Done: p.s.over, State: p}
	g.First, g.Last, err = block(p.zxid, p.r.Min, p.r.Tokens())
	return g, err
}

// Renew implements lease.Driver. A batch of nodes is checked by one write: reads
// prove nothing, a follower that is cut off answers them as before.
func (d *driver) Renew(ctx context.Context, rs []lease.Request, gs []lease.Grant, errs []error) {
	bySession := make(map[*session][]int)
	for i, g := range gs {
		s := g.State.(*place).s
		bySession[s] = append(bySession[s], i)
	}
	var all sync.WaitGroup
	for s, items := range bySession {
		for items := range slices.Chunk(items, maxChecks) {
			all.Go(func() { d.renew(ctx, s, items, gs, errs) })
		}
	}
	all.Wait()
}

func (d *driver) renew(ctx context.Context, s *session, items []int, gs []lease.Grant, errs []error) {
	items = slices.Clone(items)
	for len(items) > 0 {
		paths := make([]string, len(items))
		for i, item := range items {
			paths[i] = gs[item].State.(*place).path
		}
		start := time.Now()
		sent, bad, err := check(ctx, s, paths)
		switch {
		case err == nil:
			for _, item := range items {
				gs[item].Since, gs[item].TTL = sent, s.lease()
				d.watchAgain(ctx, gs[item].State.(*place))
			}
			return
		case bad >= 0:
			errs[items[bad]] = &fencelock.LostError{Reason: fencelock.Deleted}
			d.clear(gs[items[bad]].State.(*place))
			items = slices.Delete(items, bad, bad+1)
			continue
		case errors.Is(err, errGone):
			err = &fencelock.LostError{Reason: fencelock.SessionGone, Cause: err}
		case ctx.Err() != nil:
			s.suspect(start)
		}
		for _, item := range items {
			errs[item] = err
		}
		return
	}
}

// Release implements lease.Driver.
func (d *driver) Release(ctx context.Context, _ lease.Request, g lease.Grant) error {
	err := d.clear(g.State.(*place)).wait(ctx)
	if errors.Is(err, errGone) {
		return &fencelock.LostError{Reason: fencelock.SessionGone, Cause: err}
	}
	return err
}

// Undo implements lease.Driver.
func (d *driver) Undo(ctx context.Context, r lease.Request) error {
	d.mu.Lock()
	p := d.places[r.Attempt]
	d.mu.Unlock()
	if p == nil {
		return nil
	}
	err := d.clear(p).wait(ctx)
	if errors.Is(err, errGone) || errors.Is(err, fencelock.ErrLost) {
		return nil
	}
	return err
}

// Idle implements lease.Idler: it closes the session.
func (d *driver) Idle(ctx context.Context) error {
	d.mu.Lock()
	if d.active > 0 {
		d.mu.Unlock()
		return errors.New("zk: somebody has begun to ask")
	}
	c := d.open
	d.open = nil
	d.mu.Unlock()
	if c == nil {
		return nil
	}
	c.stop()
	return waitFor(ctx, c.done)
}

// close closes the session whatever stands in it, and waits for all that belongs
// to the driver.
func (d *driver) close(ctx context.Context) error {
	d.mu.Lock()
	if d.open != nil {
		d.open.stop()
	}
	d.mu.Unlock()
	done := make(chan struct{})
	go func() {
		d.crew.Wait()
		close(done)
	}()
	return waitFor(ctx, done)
}

func waitFor(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("zk: the session's end goes on in the background: %w", ctx.Err())
	}
}

// current returns the session, a new one if there is none that lives; d.mu is held.
func (d *driver) current() *session {
	if d.open == nil || d.open.ended() {
		d.open = d.start()
	}
	return d.open.session
}

func (d *driver) start() *carried {
	ctx, cancel := context.WithCancel(context.Background())
	c := &carried{newSession(d.opener), cancel, make(chan struct{})}
	d.crew.Go(func() {
		defer close(c.done)
		c.run(ctx)
		cancel()
	})
	return c
}
