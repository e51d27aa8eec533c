package etcd

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencelock/fencelock"
)

// wait returns when no key is older than the attempt's own. It watches the last
// one before its own and nothing else, so that each key that goes wakes one
// waiter. A waiter whose own key or lease is gone must neither take the lock nor
// wait on.
func (d *driver) wait(ctx context.Context, a *attempt) error {
	ctx, done := both(ctx, a.ctx)
	defer done()
	for before := a.before; before != nil; {
		w, err := d.watch(ctx, string(before.Key))
		if err != nil {
			w = deaf() // the look from time to time is the floor
		}
		now, err := d.look(ctx, a) // after the watch began: nothing is missed in between
		if err == nil && now != nil && now.CreateRevision == before.CreateRevision {
			told := w.await(ctx, a.s.granted()/3)
			now, err = d.look(ctx, a)
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

// look returns the last key before the attempt's own; nil means that it has the
// lock. The error is a *fencelock.LostError if its own key is gone.
func (d *driver) look(ctx context.Context, a *attempt) (*mvccpb.KeyValue, error) {
	older := append(clientv3.WithLastCreate(), clientv3.WithMaxCreateRev(a.rev-1), clientv3.WithKeysOnly())
	for {
		once, cancel := context.WithTimeout(ctx, patienceOf(a.s.granted()))
		resp, err := d.client.Txn(once).Then(
			clientv3.OpGet(a.in.space, older...),
			clientv3.OpGet(a.key, clientv3.WithKeysOnly()),
		).Commit()
		hung := once.Err() != nil
		cancel()
		switch {
		case err == nil:
			own := resp.Responses[1].GetResponseRange().Kvs
			if len(own) == 0 || own[0].CreateRevision != a.rev {
				return nil, &fencelock.LostError{Reason: fencelock.Deleted}
			}
			if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
				return kvs[0], nil
			}
			return nil, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case hung: // another member may answer
		case passing(err): // a leader is being elected, or a member restarts
			pause(ctx, 50*time.Millisecond)
		default:
			return nil, err
		}
	}
}

// both returns a ctx that ends with either, and its cause.
func both(ctx, other context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() { stop(); cancel(nil) }
}
