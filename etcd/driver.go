package etcd

import (
	"context"
	"errors"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

// driver implements lease.Driver, lease.Queuer (queue.go) and lease.Idler
// (session.go).
type driver struct {
	client *clientv3.Client
	alive  func(ctx context.Context, id clientv3.LeaseID) error // renews a lease
	wall   func(time.Time) time.Time                            // the wall clock; tests step it
	crew   sync.WaitGroup                                       // all goroutines

	mu       sync.Mutex
	sessions map[int64]*session  // by the TTL asked, for the next attempts
	old      map[*session]bool   // to be revoked after their last attempts
	attempts map[string]*attempt // of which something may be at the server
	guards   int
	stream   int // of watches
}

func newDriver(client *clientv3.Client) *driver {
	return &driver{
		client:   client,
		alive:    keepAliveOf(client),
		wall:     func(t time.Time) time.Time { return t.Round(0) },
		sessions: make(map[int64]*session),
		old:      make(map[*session]bool),
		attempts: make(map[string]*attempt),
	}
}

// Try implements lease.Driver. A refused attempt has written nothing.
func (d *driver) Try(ctx context.Context, r lease.Request) (lease.Grant, error) {
	a, err := d.enter(ctx, r, false)
	if err != nil {
		return lease.Grant{}, err
	}
	if a.rev == 0 {
		return lease.Grant{}, &fencelock.HeldError{}
	}
	return d.granted(a, r)
}

// granted makes the grant of an attempt that has the lock. Its TTL counts from
// the last renewal of the lease, which the attempt itself is not.
func (d *driver) granted(a *attempt, r lease.Request) (lease.Grant, error) {
	first, last, err := block(a.rev, r)
	if err != nil {
		return lease.Grant{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return lease.Grant{First: first, Last: last, Since: a.s.since, TTL: a.s.ttl, Done: a.gone, State: a}, nil
}

// Renew implements lease.Driver: one request for each lease.
func (d *driver) Renew(ctx context.Context, rs []lease.Request, gs []lease.Grant, errs []error) {
	batches := make(map[*session][]int)
	for i, g := range gs {
		s := g.State.(*attempt).s
		batches[s] = append(batches[s], i)
	}
	var all sync.WaitGroup
	for s, batch := range batches {
		all.Go(func() {
			err := d.renew(ctx, s)
			d.mu.Lock()
			since := s.since
			d.mu.Unlock()
			var there map[string]bool
			if err == nil {
				there = d.unguardedKeys(ctx, s, gs, batch)
			}
			for _, i := range batch {
				gs[i].Since, gs[i].TTL, errs[i] = since, s.ttl, err
				if a := gs[i].State.(*attempt); there != nil && !there[a.key] {
					errs[i] = &fencelock.LostError{Reason: fencelock.Deleted}
				}
			}
		})
	}
	all.Wait()
}

// unguardedKeys returns the keys that stand on a lease; nil if it is not known or
// all that matter are guarded.
func (d *driver) unguardedKeys(ctx context.Context, s *session, gs []lease.Grant, batch []int) map[string]bool {
	d.mu.Lock()
	all := true
	for _, i := range batch {
		all = all && gs[i].State.(*attempt).guarded
	}
	d.mu.Unlock()
	if all {
		return nil
	}
	resp, err := d.client.TimeToLive(ctx, s.id, clientv3.WithAttachedKeys())
	if err != nil || resp.TTL < 0 {
		return nil
	}
	there := make(map[string]bool, len(resp.Keys))
	for _, key := range resp.Keys {
		there[string(key)] = true
	}
	return there
}

// Release implements lease.Driver.
func (d *driver) Release(ctx context.Context, _ lease.Request, g lease.Grant) error {
	a := g.State.(*attempt)
	d.unguard(a)
	resp, err := d.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(a.key), "=", a.rev)).
		Then(clientv3.OpDelete(a.key)).
		Commit()
	if err != nil {
		a.freed = true
		return err
	}
	d.forget(a)
	if !resp.Succeeded && !a.freed {
		return &fencelock.LostError{Reason: fencelock.Deleted}
	}
	return nil
}

// Undo implements lease.Driver. The attempt's own Txn comes first: its key
// cannot be removed before it is there.
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
	if a.rev > 0 || a.unknown {
		_, err := d.client.Txn(ctx).
			If(clientv3.Compare(clientv3.Value(a.key), "=", a.id)).
			Then(clientv3.OpDelete(a.key)).
			Commit()
		if err != nil {
			return err
		}
	}
	d.forget(a)
	return nil
}

func isLost(err error) bool { return errors.Is(err, fencelock.ErrLost) }
