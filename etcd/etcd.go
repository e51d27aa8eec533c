// Package etcd locks by an etcd cluster.
//
//	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialKeepAliveTime: 5*time.Second, DialKeepAliveTimeout: 2*time.Second})
//	...
//	locker, err := etcd.New(client)
//	...
//	err = fencelock.WithLock(ctx, locker, "invoices/2026-11", work)
//
// A lock is held by the oldest key that begins with prefix + name + "#"; the
// others are those who wait, first come, first served. ('%' and '#' in prefix and
// name are written %25 and %23.) Keys are bound to a lease, one per Locker and
// TTL, which is revoked when the Locker is idle. A release wakes the next in
// line and nobody else.
//
// A token is the create revision of the holder's key times 4096, so tokens
// rise for as long as the cluster's revision does: through leader changes,
// restarts and the loss of a minority. Only a cluster that is restored from a
// snapshot goes back, unless the restore raises the revision (etcdutl snapshot
// restore --bump-revision); fencelock.MinToken finds that out. There is no clock
// in it.
//
// Etcd counts TTLs in whole seconds, so they are rounded up, and raises those
// that are too short for the cluster's election timeout; Lock.Valid tells what was
// given.
//
// A key deleted by hand is told within a second for up to 64 locks of a
// Locker, for others with the next renewal. A waiting process looks for itself
// every third of the TTL in case a member hangs that was to tell it, and a request
// that has gone to such a member waits with it: give the client DialKeepAliveTime
// and DialKeepAliveTimeout, so that it notices.
//
// Needs etcd 3.4 or later.
package etcd

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

// Locker implements fencelock.Locker. It is safe for concurrent use.
type Locker struct {
	engine *lease.Locker
	driver *driver
}

// New returns a Locker on client, which it neither closes nor changes. It sends
// nothing yet.
func New(client *clientv3.Client, opts ...fencelock.Option) (*Locker, error) {
	set, err := lease.Settings("etcd", opts)
	if err != nil {
		return nil, err
	}
	if client == nil || client.ActiveConnection() == nil {
		return nil, errors.New("fencelock: etcd.New: the client is nil or has no connection")
	}
	d := newDriver(client)
	l := &Locker{lease.New(d, set), d}
	d.lose = l.engine.Lose
	return l, nil
}

// Acquire waits until it holds name; see fencelock.Locker.
func (l *Locker) Acquire(ctx context.Context, name string, opts ...fencelock.Option) (fencelock.Lock, error) {
	return l.engine.Acquire(ctx, name, opts...)
}

// TryAcquire makes one attempt, which writes nothing if the lock is held; see
// fencelock.Locker.
func (l *Locker) TryAcquire(ctx context.Context, name string, opts ...fencelock.Option) (fencelock.Lock, error) {
	return l.engine.TryAcquire(ctx, name, opts...)
}

// Status asks the cluster about name. The token of a lock that nobody holds is
// unknown, and since when one is held.
func (l *Locker) Status(ctx context.Context, name string) (fencelock.Status, error) {
	return l.engine.Status(ctx, name)
}

// Break ends a hold from outside by deleting its key; see fencelock.Breaker.
func (l *Locker) Break(ctx context.Context, name string, t fencelock.Token) error {
	return l.engine.Break(ctx, name, t)
}

// Close ends all waits, tells the holders that their locks are lost and releases
// them, revokes the leases, and waits for all that until ctx ends; then it goes on in
// the background. The client stays open. Close may be called again.
func (l *Locker) Close(ctx context.Context) error {
	return errors.Join(l.engine.Close(ctx), l.driver.close(ctx))
}
