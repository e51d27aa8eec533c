package etcd

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencelock/fencelock"
)

const (
	// guardAfter is how long a key lives before it is watched for its own sake:
	// most are gone by then and cost nothing.
	guardAfter = 250 * time.Millisecond

	// maxGuards bounds these watches, each of which costs three goroutines. The
	// keys of further holds are looked at when they are renewed.
	maxGuards = 64
)

// guard has the attempt told when its key has been deleted by anybody else.
func (d *driver) guard(a *attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a.timer = time.AfterFunc(guardAfter, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if a.timer == nil || d.guards == maxGuards {
			return
		}
		var ctx context.Context
		ctx, a.unwatch = context.WithCancel(a.ctx)
		d.guards++
		d.crew.Go(func() {
			d.watchOver(ctx, a)
			d.mu.Lock()
			d.guards--
			d.mu.Unlock()
		})
	})
}

// unguard is guard's opposite.
func (d *driver) unguard(a *attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	if a.unwatch != nil {
		a.unwatch()
		a.unwatch = nil
	}
}

// watchOver returns when ctx ends or the key is gone.
func (d *driver) watchOver(ctx context.Context, a *attempt) {
	for ctx.Err() == nil {
		w, err := d.watch(ctx, a.key)
		if err == nil {
			if _, err = d.look(ctx, a); err == nil {
				select { // what has changed is seen by the next look
				case <-w.events:
				case <-ctx.Done():
				}
			}
			w.stop()
		}
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, fencelock.ErrLost):
			d.deleted(a)
		case err != nil:
			pause(ctx, guardAfter)
		}
	}
}

// deleted tells who holds or waits by a key that it is gone.
func (d *driver) deleted(a *attempt) {
	why := fencelock.LostError{Reason: fencelock.Deleted}
	a.end(&why) // also for a hold that the engine does not know yet
	d.lose(a.r, why)
	d.drop(a)
}

// unguarded returns the keys that stand on a lease; nil if that is not known, or
// all that matter are watched.
func (d *driver) unguarded(ctx context.Context, s *session, of []*attempt) map[string]bool {
	d.mu.Lock()
	all := true
	for _, a := range of {
		all = all && a.unwatch != nil
	}
	d.mu.Unlock()
	if all {
		return nil
	}
	resp, err := d.client.TimeToLive(ctx, clientv3.LeaseID(s.id), clientv3.WithAttachedKeys())
	if err != nil || resp.TTL < 0 {
		return nil
	}
	there := make(map[string]bool, len(resp.Keys))
	for _, key := range resp.Keys {
		there[string(key)] = true
	}
	return there
}
