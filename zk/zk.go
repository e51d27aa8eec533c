// Package zk locks by ZooKeeper.
//
//	locker, err := zk.New([]string{"zk1:2181", "zk2:2181", "zk3:2181"})
//	...
//	defer locker.Close(context.Background())
//	err = fencelock.WithLock(ctx, locker, "invoices/2026-11", work)
//
// A name is a container node, /fencelock/<name> with the default prefix, and the
// queue for it is that node's children: ephemeral sequential nodes, one for each
// process that holds the lock or waits, named as go-zookeeper's own Lock names
// them, so that the two respect each other. Other children are ignored. The
// server removes the container when its last child has gone. What a path may not
// contain is escaped as in a URL, and a long name is hashed.
//
// Tokens are made of the zxid that created the node, or of a later change that came
// before all nodes behind it: ZooKeeper numbers all changes in their order, and a new
// leader goes on above the old one, whatever happens to the nodes. They survive
// everything but the loss of the ensemble's data; then MinToken gives ErrRegressed.
//
// A Locker has one session, for all its locks, that begins with the first
// acquire and is closed when the Locker is idle. [fencelock.TTL] is the time-out of
// that session, for New only, and must be within the server's bounds: by default 2
// and 20 times its tickTime of 2 s. A holder counts on half of it only, so its
// Valid is at most that: reads prove nothing, as a follower that is cut off answers
// them long after the leader has ended the session. What counts is a write that
// checks the nodes of all holds, every sixth of the time-out. When the session
// ends, its holders are told and the next acquire starts another one.
//
// Waiting processes queue, first come, first served. Each watches the one ahead
// of it, so a release wakes one process.
//
// Needs ZooKeeper 3.5.3 or later. The ACL of what is there already must let the
// Locker read, create and delete.
package zk

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/option"
)

// Locker implements fencelock.Locker. It is safe for concurrent use.
type Locker struct {
	engine *lease.Locker
	driver *driver
}

// New returns a Locker on the ensemble of servers, host:port each, 2181 if there
// is no port. It connects with the first acquire.
func New(servers []string, opts ...fencelock.Option) (*Locker, error) {
	set, err := lease.Settings("zk", opts, dialerKey{}, authKey{}, aclKey{})
	if err != nil {
		return nil, err
	}
	d := &driver{prefix: set.Prefix, tree: newTree(set.Prefix), places: make(map[string]*place)}
	d.opener, err = openerOf(servers, set)
	if err == nil {
		d.acl, err = aclOf(set)
	}
	if err != nil {
		return nil, fmt.Errorf("fencelock: zk.New: %w", err)
	}
	set.Fix(option.TTL)
	l := &Locker{lease.New(d, set), d}
	d.lose = l.engine.Lose
	return l, nil
}

// Acquire waits until it holds name; see fencelock.Locker.
func (l *Locker) Acquire(ctx context.Context, name string, opts ...fencelock.Option) (fencelock.Lock, error) {
	return l.engine.Acquire(ctx, name, opts...)
}

// TryAcquire makes one attempt, which writes nothing if the lock is taken; see
// fencelock.Locker.
func (l *Locker) TryAcquire(ctx context.Context, name string, opts ...fencelock.Option) (fencelock.Lock, error) {
	return l.engine.TryAcquire(ctx, name, opts...)
}

// Status asks the ensemble about name. How long a holder may keep a lock is not
// known to others, nor its token but for a number that is not above it. A name that
// nobody holds has no token.
func (l *Locker) Status(ctx context.Context, name string) (fencelock.Status, error) {
	return l.engine.Status(ctx, name)
}

// Break ends a hold from outside by deleting its node; see fencelock.Breaker.
func (l *Locker) Break(ctx context.Context, name string, t fencelock.Token) error {
	return l.engine.Break(ctx, name, t)
}

// Close ends all waits, tells the holders that their locks are lost and releases
// them, closes the session, and waits for all that until ctx ends; then it goes on
// in the background. Close may be called again.
func (l *Locker) Close(ctx context.Context) error {
	return errors.Join(l.engine.Close(ctx), l.driver.close(ctx))
}
