package etcd

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

// attempt is one request for a lock, from its beginning until nothing of it is
// left at the server.
type attempt struct {
	r   lease.Request
	s   *session
	in  slot
	key string // its value is the attempt's id
	ctx context.Context
	end context.CancelCauseFunc // of ctx, when its key or its lease is gone: the cause says which

	replied chan struct{} // closed when its Txn has its result, which is:
	err     error
	unknown bool             // the Txn may have been applied, or may yet be
	rev     int64            // create revision of the key; 0: not written
	before  *mvccpb.KeyValue // the last key before its own, nil: it has the lock

	freed atomic.Bool // a removal of unknown result has been sent

	// Guarded by driver.mu.
	using   bool               // it counts as a user of its session
	timer   *time.Timer        // starts the watch of its own key
	unwatch context.CancelFunc // nil: the key is not watched
}

// slot tells apart what attempts of one session, for one name, are there at a time.
type slot struct {
	space string
	n     int
}

// join adds an attempt to the session for its TTL, which it makes if there is
// none.
func (d *driver) join(r lease.Request) *attempt {
	seconds := int64((r.TTL + time.Second - 1) / time.Second)
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.sessions[seconds]
	if s == nil || s.ctx.Err() != nil {
		s = d.newSession(seconds)
	}
	a := &attempt{r: r, s: s, in: slot{space: space(r.Key)}, replied: make(chan struct{}), using: true}
	for s.slots[a.in] {
		a.in.n++
	}
	a.key = slotKey(a.in.space, s.id, a.in.n)
	a.ctx, a.end = context.WithCancelCause(s.ctx)
	s.slots[a.in], s.attempts[a], d.attempts[r.Attempt] = true, true, a
	s.users++
	s.poke()
	return a
}

// leave notes that the attempt is no longer a reason to keep its lease.
func (d *driver) leave(a *attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a.using {
		a.using = false
		a.s.users--
		a.s.poke()
	}
}

// drop forgets an attempt of which nothing is left at the server, nor will be.
func (d *driver) drop(a *attempt) {
	d.leave(a)
	d.unguard(a)
	a.end(nil)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !a.s.attempts[a] {
		return
	}
	delete(a.s.attempts, a)
	delete(a.s.slots, a.in)
	if d.attempts[a.r.Attempt] == a {
		delete(d.attempts, a.r.Attempt)
	}
}

// enter makes an attempt: one Txn, which writes if the lock is free or, with
// queue, in any case.
func (d *driver) enter(ctx context.Context, r lease.Request, queue bool) (*attempt, error) {
	for {
		a := d.join(r)
		// A lease that has run out unnoticed would cost the hold its time.
		if err := a.s.fresh(ctx, r.TTL/2); err != nil {
			d.drop(a)
			if ctx.Err() == nil && errors.Is(err, fencelock.ErrLost) {
				continue
			}
			return nil, lease.Definite(err)
		}
		// A call whose ctx has ended may still be applied, so this one outlives
		// ctx: Undo waits for its result.
		hung := make(chan bool, 1)
		d.crew.Go(func() { hung <- d.send(a, queue) })
		select {
		case <-a.replied:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		switch {
		case a.err == nil && a.rev == 0:
			d.drop(a)
			return a, nil
		case a.err == nil:
			d.guard(a)
			return a, nil
		case leaseGone(a.err):
			a.s.end(gone(a.err))
			d.drop(a)
		case definite(a.err):
			d.drop(a)
			return nil, lease.Definite(a.err)
		case !<-hung:
			return nil, a.err
		default: // another member may answer
			once, cancel := context.WithTimeout(ctx, patience)
			_, _ = d.remove(once, a)
			cancel()
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// send makes the attempt's Txn, and reports whether no answer came.
func (d *driver) send(a *attempt, queue bool) (hung bool) {
	defer close(a.replied)
	ctx, cancel := context.WithTimeout(context.Background(), max(patienceOf(a.s.granted()), time.Second))
	defer cancel()
	put := clientv3.OpPut(a.key, a.r.Attempt, clientv3.WithLease(clientv3.LeaseID(a.s.id)))
	refused := []clientv3.Op{clientv3.OpGet(a.in.space, append(clientv3.WithLastCreate(), clientv3.WithKeysOnly())...)}
	if queue {
		refused = append(refused, put)
	}
	resp, err := d.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(a.in.space), "=", 0).WithPrefix()).
		Then(put).Else(refused...).Commit()
	if err != nil {
		a.err, a.unknown = err, !definite(err)
		if a.unknown {
			// It may still be applied, when a member wakes that has it. While others
			// keep this lease, each renewal looks for it; without them it goes at once.
			a.s.retire()
		}
		return ctx.Err() != nil
	}
	a.rev = resp.Header.Revision
	if resp.Succeeded {
		return false
	}
	switch last := resp.Responses[0].GetResponseRange().Kvs[0]; {
	case string(last.Key) == a.key: // the client has sent the Txn twice
		a.rev, a.before = last.CreateRevision, last
	case queue:
		a.before = last
	default:
		a.rev = 0
	}
	return false
}

// remove removes the attempt's key, which nobody else can have given its value, and
// reports whether it was there, or may have been. Until that is done, each renewal
// of the lease does it again.
func (d *driver) remove(ctx context.Context, a *attempt) (found bool, err error) {
	defer d.leave(a) // not before: a lease without users is revoked
	d.unguard(a)
	for {
		// The engine gives it 2 seconds at most, which must do for some members.
		once, cancel := context.WithTimeout(ctx, min(patienceOf(a.s.granted()), patience/4))
		resp, err := d.client.Txn(once).
			If(clientv3.Compare(clientv3.Value(a.key), "=", a.r.Attempt)).
			Then(clientv3.OpDelete(a.key)).
			Commit()
		hung := once.Err() != nil
		cancel()
		if err == nil {
			if resp.Succeeded || !a.unknown {
				d.drop(a)
			}
			return resp.Succeeded || a.freed.Load(), nil
		}
		if definite(err) {
			return false, err
		}
		a.freed.Store(true)
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case a.s.ctx.Err() != nil:
			return false, context.Cause(a.s.ctx)
		case hung: // another member may answer
		case passing(err):
			pause(ctx, 50*time.Millisecond)
		default:
			return false, err
		}
	}
}
