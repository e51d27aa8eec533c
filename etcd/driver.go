package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

// driver implements lease.Driver, lease.Queuer and lease.Idler.
type driver struct {
	client *clientv3.Client
	leases pb.LeaseClient
	lose   func(lease.Request, fencelock.LostError) // tells the engine of a deleted key
	wall   func(time.Time) time.Time                // the wall clock; tests step it

	ctx  context.Context // ends with close
	stop context.CancelFunc
	crew sync.WaitGroup // all goroutines

	mu       sync.Mutex
	sessions map[int64]*session  // by the seconds asked, for the next attempts
	attempts map[string]*attempt // by id
	guards   int
	stream   int // of watches
}

func newDriver(client *clientv3.Client) *driver {
	d := &driver{
		client:   client,
		leases:   pb.NewLeaseClient(client.ActiveConnection()),
		wall:     func(t time.Time) time.Time { return t.Round(0) },
		sessions: make(map[int64]*session),
		attempts: make(map[string]*attempt),
	}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d
}

// Try implements lease.Driver. A refused attempt has written nothing: where there
// is no lease yet, it looks before it gets one.
func (d *driver) Try(ctx context.Context, r lease.Request) (lease.Grant, error) {
	if d.leaseless() {
		once, cancel := context.WithTimeout(ctx, patience)
		resp, err := d.client.Get(once, space(r.Key), clientv3.WithPrefix(), clientv3.WithCountOnly())
		cancel()
		if err == nil && resp.Count > 0 {
			return lease.Grant{}, &fencelock.HeldError{}
		}
	}
	a, err := d.enter(ctx, r, false)
	if err != nil {
		return lease.Grant{}, err
	}
	if a.rev == 0 {
		return lease.Grant{}, &fencelock.HeldError{}
	}
	return d.grant(ctx, a)
}

// Queue implements lease.Queuer: its first Txn takes the lock or, if that is
// held, a place behind the last in line.
func (d *driver) Queue(ctx context.Context, r lease.Request) (lease.Grant, error) {
	a, err := d.enter(ctx, r, true)
	if err != nil {
		return lease.Grant{}, err
	}
	if a.before != nil {
		r.Refused(0)
		if _, err := d.block(ctx, a); err != nil { // no use to wait for what cannot be granted
			return lease.Grant{}, err
		}
		if err := d.wait(ctx, a); err != nil {
			return lease.Grant{}, err
		}
	}
	return d.grant(ctx, a)
}

// grant makes the grant of an attempt that has the lock. Its TTL counts from the
// last renewal of the lease, which the attempt itself is not.
func (d *driver) grant(ctx context.Context, a *attempt) (g lease.Grant, err error) {
	if g, err = d.block(ctx, a); err != nil {
		return g, err
	}
	if err := a.s.fresh(ctx, a.r.TTL/2); err != nil {
		return g, err
	}
	g.Done, g.State = a.s.ctx.Done(), a
	g.Since, g.TTL = a.s.confirmed()
	return g, nil
}

// block is a grant with the attempt's tokens and nothing else. An attempt that
// cannot have any is removed.
func (d *driver) block(ctx context.Context, a *attempt) (g lease.Grant, err error) {
	if g.First, g.Last, err = block(a.rev, a.r); err == nil {
		return g, nil
	}
	if _, failed := d.remove(ctx, a); failed == nil {
		err = lease.Unfit(err)
	}
	return lease.Grant{}, err
}

// Renew implements lease.Driver: one request for each lease.
func (d *driver) Renew(ctx context.Context, _ []lease.Request, gs []lease.Grant, errs []error) {
	batches := make(map[*session][]*attempt)
	for _, g := range gs {
		a := g.State.(*attempt)
		batches[a.s] = append(batches[a.s], a)
	}
	var mu sync.Mutex
	failed := make(map[*session]error)
	var all sync.WaitGroup
	for s, batch := range batches {
		all.Go(func() {
			err := d.renew(ctx, s, batch)
			mu.Lock()
			failed[s] = err
			mu.Unlock()
		})
	}
	all.Wait()
	for i, g := range gs {
		a := g.State.(*attempt)
		gs[i].Since, gs[i].TTL = a.s.confirmed()
		if errs[i] = context.Cause(a.ctx); errs[i] == nil {
			errs[i] = failed[a.s]
		}
	}
}

func (d *driver) renew(ctx context.Context, s *session, batch []*attempt) error {
	if err := s.renewedAfter(ctx, time.Now()); err != nil {
		return err
	}
	if there := d.unguarded(ctx, s, batch); there != nil {
		for _, a := range batch {
			if !there[a.key] {
				d.deleted(a)
			}
		}
	}
	return nil
}

// Release implements lease.Driver.
func (d *driver) Release(ctx context.Context, _ lease.Request, g lease.Grant) error {
	found, err := d.remove(ctx, g.State.(*attempt))
	if err == nil && !found {
		err = &fencelock.LostError{Reason: fencelock.Deleted}
	}
	return err
}

// Undo implements lease.Driver. The attempt's own Txn comes first: its key cannot
// be removed before it is there. One that may yet come is removed with the next
// renewal of its lease.
func (d *driver) Undo(ctx context.Context, r lease.Request) error {
	d.mu.Lock()
	a := d.attempts[r.Attempt]
	d.mu.Unlock()
	if a == nil {
		return nil
	}
	select {
	case <-a.replied:
	case <-ctx.Done():
		return ctx.Err()
	}
	_, err := d.remove(ctx, a)
	return err
}

// Idle implements lease.Idler: it revokes the leases that nobody uses.
func (d *driver) Idle(ctx context.Context) error {
	d.mu.Lock()
	var unused []*session
	busy := false
	for _, s := range d.sessions {
		if s.users > 0 {
			busy = true
			continue
		}
		s.retireLocked()
		unused = append(unused, s)
	}
	d.mu.Unlock()
	for _, s := range unused {
		select {
		case <-s.done:
		case <-ctx.Done():
			return fmt.Errorf("etcd: the lease's end goes on in the background: %w", ctx.Err())
		}
	}
	if busy {
		return errors.New("etcd: somebody has begun to ask")
	}
	return nil
}

// leaseless reports whether there is no lease of any kind.
func (d *driver) leaseless() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.sessions) == 0
}

// close revokes all leases whatever stands on them, and waits for all that belongs
// to the driver.
func (d *driver) close(ctx context.Context) error {
	d.stop()
	done := make(chan struct{})
	go func() {
		d.crew.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("fencelock: close: clean-up goes on in the background: %w", ctx.Err())
	}
}
