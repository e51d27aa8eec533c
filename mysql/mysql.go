// Package mysql locks by a MySQL or MariaDB that you have already.
//
//	db, err := sql.Open("mysql", dsn)
//	...
//	err = mysql.Migrate(ctx, db) // once; or run mysql/schema.sql
//	locker, err := mysql.NewLease(db)
//	...
//	err = fencelock.WithLock(ctx, locker, "invoices/2026-11", work)
//
// There are three styles. Lockers of different styles do not exclude each
// other.
//
//   - [NewLease]: a row with an owner and an expiry. It holds no connection, so it
//     suits many locks, proxies and pools; waiting processes poll.
//   - [NewAdvisory]: GET_LOCK. Each hold and each waiting process keeps a
//     connection; the server queues, and frees the lock as soon as the
//     connection of a dead holder ends.
//   - [NewRow]: SELECT … FOR UPDATE on a row, in a transaction that stays open.
//     As NewAdvisory; in addition [TxLock] of a caller's transaction respects it.
//
// [TxLock] locks a name within your own transaction, until that ends. [NewFence]
// guards data in the same database, within the transaction that writes it.
//
// Tokens are microseconds of the server's clock, raised above a counter per name
// that is changed by a committed UPDATE and never deleted with a lock. So they
// keep rising even if the counter is lost (a failover to a stale replica, a
// deleted row), unless the new server's clock is then behind the last grant.
// What an acknowledged commit survives is your server's matter: with
// innodb_flush_log_at_trx_commit=1 a crash of the machine.
//
// All times are the server's, in UTC, whatever time zones the sessions have. The
// package imports no driver; it is tested with github.com/go-sql-driver/mysql,
// with every setting of clientFoundRows, interpolateParams and parseTime. A
// readTimeout in the DSN must be longer than 30 seconds for NewAdvisory and NewRow,
// whose waiters wait that long for one answer.
//
// The session styles refuse Galera clusters, whose nodes do not know of each other's
// GET_LOCK and row locks.
package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/option"
	"github.com/fencelock/fencelock/internal/sqlkit"
)

// Locker implements fencelock.Locker. It is safe for concurrent use.
type Locker struct {
	engine *lease.Locker
	style  style
}

// style is what the three ways of locking do not share.
type style interface {
	lease.Driver
	lease.Inspector
	// free says which of keys is the first that is free just now, -1 if none is.
	free(ctx context.Context, keys []sqlkit.Key) (int, error)
}

// NewLease returns a Locker that keeps a row with an owner and an expiry for
// each name. It uses connections of db for one statement at a time, each of which
// commits by itself, and sends nothing yet. db must be allowed more than one
// connection.
//
// The row is never locked longer than a statement takes. If an operator's
// transaction locks it, the holder is told that the lock is lost when its TTL
// ends.
func NewLease(db *sql.DB, opts ...fencelock.Option) (*Locker, error) {
	return open("NewLease", db, opts, newLeases)
}

type settings struct {
	option.Set
	tables
	pool
}

func open(what string, db *sql.DB, opts []fencelock.Option, make func(settings) style) (*Locker, error) {
	set, err := lease.Settings("mysql", opts, prefixKey{})
	if err != nil {
		return nil, err
	}
	t, err := tablesOf(set)
	if err == nil {
		err = checkPool(db)
	}
	if err == nil && db.Stats().MaxOpenConnections == 1 {
		err = errors.New("the pool is allowed one connection only, which the work under a lock needs, too: call db.SetMaxOpenConns with 2 or more")
	}
	if err != nil {
		return nil, fmt.Errorf("fencelock: mysql.%s: %w", what, err)
	}
	style := make(settings{set, t, pool{db}})
	return &Locker{lease.New(style, set), style}, nil
}

// Acquire waits until it holds name; see fencelock.Locker.
func (l *Locker) Acquire(ctx context.Context, name string, opts ...fencelock.Option) (fencelock.Lock, error) {
	return l.engine.Acquire(ctx, name, opts...)
}

// TryAcquire makes one attempt; see fencelock.Locker.
func (l *Locker) TryAcquire(ctx context.Context, name string, opts ...fencelock.Option) (fencelock.Lock, error) {
	return l.engine.TryAcquire(ctx, name, opts...)
}

// TryAny acquires one of names, whichever is free, or fails with ErrHeld if none
// is. Callers begin at different names, so workers that drain the same list do
// not get into each other's way. It asks the server once which of them are
// free, and again only if somebody else was quicker.
func (l *Locker) TryAny(ctx context.Context, names ...string) (fencelock.Lock, error) {
	return sqlkit.Any(ctx, names, func(ctx context.Context, names []string) (int, error) {
		keys := make([]sqlkit.Key, len(names))
		for i, name := range names {
			keys[i] = sqlkit.KeyOf(l.engine.Key(name))
		}
		return l.style.free(ctx, keys)
	}, func(ctx context.Context, name string) (fencelock.Lock, error) {
		return l.engine.TryAcquire(ctx, name)
	})
}

// Status asks the server about name. It cannot count waiting processes, and how
// long the holder may keep the lock it knows of leases only.
func (l *Locker) Status(ctx context.Context, name string) (fencelock.Status, error) {
	return l.engine.Status(ctx, name)
}

// Break ends a hold from outside; see fencelock.Breaker. Of the styles that hold
// by a session it kills the connection, which takes the same user, or the right
// to kill other people's. It does not end a [TxLock], which has no token.
func (l *Locker) Break(ctx context.Context, name string, t fencelock.Token) error {
	return l.engine.Break(ctx, name, t)
}

// Close ends all waits, tells the holders that their locks are lost and releases
// them, and waits for clean-ups until ctx ends; then they go on in the
// background. The pool stays open. Close may be called again.
func (l *Locker) Close(ctx context.Context) error { return l.engine.Close(ctx) }
