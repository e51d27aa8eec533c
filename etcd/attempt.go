package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencelock/fencelock/internal/lease"
)

// attempt is one request for a lock, from its beginning until nothing of it is
// left at the server.
type attempt struct {
	id    string // the value of its key
	space string
	slot  int // not used again before nothing of this attempt is left
	s     *session
	key   string

	replied chan struct{} // closed when its Txn has its result
	// The result, written before replied is closed.
	err     error
	unknown bool             // it may have been written, or may yet be
	rev     int64            // create revision of its key; 0: not written
	before  *mvccpb.KeyValue // the last key before its own, nil: it has the lock
	freed   bool             // a release of unknown result has been sent

	// Guarded by driver.mu.
	over    bool               // forgotten
	gone    chan struct{}      // closed when its key is known to be gone
	guarded bool               // gone is its own, not the session's
	lost    bool               // gone is closed
	timer   *time.Timer        // starts the guard
	stop    context.CancelFunc // ends the guard
}

// enter makes one attempt: one Txn, which writes if the lock is free or, with
// queue, in any case. On error nothing needs to be undone if it is marked
// definite.
func (d *driver) enter(ctx context.Context, r lease.Request, queue bool) (*attempt, error) {
	const tries = 3 // with a lease that the server has dropped
	for n := 1; ; n++ {
		a, err := d.begin(ctx, r)
		if err != nil {
			return nil, err
		}
		if err := d.attainable(ctx, r); err != nil {
			d.forget(a)
			return nil, err
		}
		// A call whose ctx has ended may still be applied, so this one outlives
		// ctx: Undo waits for its result.
		d.crew.Go(func() { d.send(context.WithoutCancel(ctx), a, queue) })
		select {
		case <-a.replied:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		switch {
		case a.err == nil:
			if a.rev == 0 {
				d.forget(a)
			} else {
				d.guard(a)
			}
			return a, nil
		case leaseGone(a.err) && n < tries:
			d.kill(a.s)
			d.forget(a)
		case definite(a.err):
			d.forget(a)
			return nil, lease.Definite(a.err)
		default:
			return nil, a.err
		}
	}
}

// send makes the attempt's Txn.
func (d *driver) send(ctx context.Context, a *attempt, queue bool) {
	defer close(a.replied)
	ctx, cancel := context.WithTimeout(ctx, max(a.s.ttl, time.Second))
	defer cancel()
	put := clientv3.OpPut(a.key, a.id, clientv3.WithLease(a.s.id))
	txn := d.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(a.space), "=", 0).WithPrefix()).
		Then(put)
	if queue {
		txn = txn.Else(clientv3.OpGet(a.space, append(clientv3.WithLastCreate(), clientv3.WithKeysOnly())...), put)
	}
	resp, err := txn.Commit()
	switch {
	case err != nil:
		a.err, a.unknown = err, !definite(err)
	case resp.Succeeded:
		a.rev = resp.Header.Revision
	case queue:
		a.rev = resp.Header.Revision
		a.before = resp.Responses[0].GetResponseRange().Kvs[0]
	}
	if a.unknown {
		// It may be applied after the clean-up, when a member wakes that has
		// it. Without its lease it cannot.
		d.retire(a.s)
	}
}

// begin registers an attempt with a lease that has most of its TTL left. Its
// errors are definite.
func (d *driver) begin(ctx context.Context, r lease.Request) (*attempt, error) {
	for {
		a, fresh := d.join(r)
		if fresh {
			d.crew.Go(func() { d.grant(a.s) })
		}
		var err error
		select {
		case <-a.s.ready:
			if err = a.s.err; err == nil {
				err = d.freshen(ctx, a.s)
			}
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err == nil {
			a.key = slotKey(a.space, a.s.id, a.slot)
			return a, nil
		}
		d.forget(a)
		if ctx.Err() != nil || !errors.Is(err, errSession) {
			return nil, lease.Definite(err)
		}
	}
}

// join adds an attempt to the session for its TTL, which it makes if there is
// none.
func (d *driver) join(r lease.Request) (a *attempt, fresh bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seconds := int64((r.TTL + time.Second - 1) / time.Second)
	s := d.sessions[seconds]
	if s != nil && s.expired(time.Now()) {
		d.killLocked(s)
		s = nil
	}
	if fresh = s == nil; fresh {
		s = newSession(seconds)
		d.sessions[seconds] = s
	}
	a = &attempt{id: r.Attempt, space: space(r.Key), s: s, replied: make(chan struct{}), gone: s.gone}
	for s.slots[slot{a.space, a.slot}] {
		a.slot++
	}
	s.slots[slot{a.space, a.slot}] = true
	s.attempts[a] = true
	d.attempts[a.id] = a
	return a, fresh
}

// forget ends an attempt of which nothing is left at the server.
func (d *driver) forget(a *attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a.over {
		return
	}
	a.over = true
	d.unguardLocked(a)
	if d.attempts[a.id] == a {
		delete(d.attempts, a.id)
	}
	delete(a.s.slots, slot{a.space, a.slot})
	delete(a.s.attempts, a)
	d.sweep(a.s)
}
