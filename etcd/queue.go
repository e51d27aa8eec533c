package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

// Queue implements lease.Queuer: its first Txn takes the lock or, if that is
// held, a place behind the last in line.
func (d *driver) Queue(ctx context.Context, r lease.Request) (lease.Grant, error) {
	a, err := d.enter(ctx, r, true)
	if err != nil {
		return lease.Grant{}, err
	}
	if a.before != nil {
		r.Refused(0)
		if _, _, err := block(a.rev, r); err != nil {
			return lease.Grant{}, err
		}
		if err := d.wait(ctx, a); err != nil {
			return lease.Grant{}, err
		}
	}
	return d.granted(a, r)
}

// wait returns when no key is older than the attempt's own. It watches the last
// one before its own and nothing else, so that each key that goes wakes one
// waiter.
func (d *driver) wait(ctx context.Context, a *attempt) error {
	for before := a.before; before != nil; {
		w, err := d.watch(ctx, string(before.Key))
		if err != nil {
			w = deaf() // the look from time to time is the floor
		}
		now, err := d.look(ctx, a) // after the watch began: nothing is missed in between
		if err == nil && now != nil && now.CreateRevision == before.CreateRevision {
			var told bool
			if told, err = d.await(ctx, a, w); err == nil {
				now, err = d.look(ctx, a)
			}
			if err == nil && !told && now == nil {
				d.nextStream() // this one has kept its news to itself
			}
		}
		w.stop()
		if err != nil {
			return err
		}
		before = now
	}
	return nil
}

// await waits until it is time to look again, and reports whether w has told so.
func (d *driver) await(ctx context.Context, a *attempt, w *watch) (told bool, err error) {
	timer := time.NewTimer(a.s.ttl / 3)
	defer timer.Stop()
	select {
	case <-w.events:
		return true, nil
	case <-a.gone:
		return true, nil
	case <-timer.C:
		// The engine renews what is held; what waits is our own affair. A watch
		// hangs together with the member that serves it, so look as well.
		if err := d.renew(ctx, a.s); errors.Is(err, fencelock.ErrLost) {
			return false, err
		}
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// look returns the last key before the attempt's own; nil means that it has the
// lock. The error is a *fencelock.LostError if its own key is gone.
func (d *driver) look(ctx context.Context, a *attempt) (*mvccpb.KeyValue, error) {
	older := append(clientv3.WithLastCreate(), clientv3.WithMaxCreateRev(a.rev-1), clientv3.WithKeysOnly())
	for {
		resp, err := d.client.Txn(ctx).Then(
			clientv3.OpGet(a.space, older...),
			clientv3.OpGet(a.key, clientv3.WithKeysOnly()),
		).Commit()
		if err == nil {
			// A waiter whose lease has run out must not take the lock, nor wait on.
			own := resp.Responses[1].GetResponseRange().Kvs
			if len(own) == 0 || own[0].CreateRevision != a.rev {
				return nil, &fencelock.LostError{Reason: fencelock.Deleted}
			}
			if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
				return kvs[0], nil
			}
			return nil, nil
		}
		d.mu.Lock()
		late := a.s.dead || a.s.expired(time.Now())
		d.mu.Unlock()
		switch {
		case ctx.Err() != nil || !passing(err):
			return nil, err
		case late:
			return nil, errSession
		}
		sleep(ctx, 50*time.Millisecond) // a leader is being elected, or a member restarts
	}
}
