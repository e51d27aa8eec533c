// Package pg locks by a PostgreSQL database, 13 or later, that you already have;
// its client is pgx.
//
//	pool, err := pgxpool.New(ctx, "postgres://…")
//	...
//	err = pg.Migrate(ctx, pool) // once, or run pg/schema.sql yourself
//	...
//	locker, err := pg.NewLease(pool)
//	...
//	err = fencelock.WithLock(ctx, locker, "invoices/2026-11", work)
//
// There are three kinds of locks, which do not exclude each other:
//
//   - [NewLease]: a row says who holds the lock and until when. It holds no
//     connection and works behind any pooler; those who wait poll, and are woken
//     by NOTIFY. The right choice unless you know why not.
//   - [NewAdvisory]: pg_advisory_lock on a connection of its own. Those who wait
//     queue in the server, first come, first served.
//   - [NewRow]: a locked row in an open transaction on a connection of its own.
//
// [TxLock] locks for the rest of a transaction of yours, where lock and data
// share the database; it excludes NewAdvisory, too.
//
// Tokens of all of them come from one counter row for each name, raised by a
// committed UPDATE and never deleted by a release: microseconds of the server's
// clock, above the counter. So they keep rising through rollbacks, crashes and,
// even if the counter is lost in a failover to a standby that lags, unless the
// new server's clock is then behind the last grant, or ahead of it by fewer
// microseconds than a grant has passes. A lock itself does not survive
// the loss of an acknowledged commit: then there may be two holders, and the later
// has the greater token. A server with fsync=off can lose commits in any crash.
//
// [NewFence] refuses the writes of a holder that has been overtaken, in the
// transaction that writes.
//
// The statements of leases, tokens and clean-up go through your pool. Give it a
// connect_timeout (else a pool whose network is gone is busy for two minutes
// with connections that will never be) and at least a connection or two more
// than your own work takes.
package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

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

// style is what the kinds of locks do each in its own way. A key is prefix +
// name. It may be a lease.Queuer, Waker and Idler as well.
type style interface {
	lease.Driver
	lease.Inspector
	// free returns the first of keys that is free just now, -1 if none is.
	free(ctx context.Context, keys []string) (int, error)
}

// newLocker makes a Locker of the style that the constructor what returns from
// make.
func newLocker(
	what string, pool *pgxpool.Pool, opts []fencelock.Option, make func(*database, *option.Set) (style, error),
) (*Locker, error) {
	set, err := lease.Settings("pg", opts, ownKeys...)
	if err != nil {
		return nil, err
	}
	db, err := openDatabase(pool, set)
	if err == nil && pool.Config().MaxConns < 2 {
		err = errors.New("the pool has MaxConns 1: while your work has its only connection, no lock could be " +
			"renewed or released; give it 2 or more")
	}
	var s style
	if err == nil {
		s, err = make(db, &set)
	}
	if err != nil {
		return nil, fmt.Errorf("fencelock: pg.%s: %w", what, err)
	}
	return &Locker{lease.New(s, set), s}, nil
}

// Acquire waits until it holds name; see fencelock.Locker.
func (l *Locker) Acquire(ctx context.Context, name string, opts ...fencelock.Option) (fencelock.Lock, error) {
	return l.engine.Acquire(ctx, name, opts...)
}

// TryAcquire makes one attempt; see fencelock.Locker.
func (l *Locker) TryAcquire(ctx context.Context, name string, opts ...fencelock.Option) (fencelock.Lock, error) {
	return l.engine.TryAcquire(ctx, name, opts...)
}

// TryAny locks one of names, whichever is free, in a random order so that
// callers do not fight for the first; Lock.Name says which. One query finds it
// and one attempt takes it, again only if somebody else was quicker. If none is
// free, the error matches fencelock.ErrHeld.
func (l *Locker) TryAny(ctx context.Context, names ...string) (fencelock.Lock, error) {
	free := func(ctx context.Context, names []string) (int, error) {
		keys := make([]string, len(names))
		for i, name := range names {
			keys[i] = l.engine.Key(name)
		}
		return l.style.free(ctx, keys)
	}
	return sqlkit.Any(ctx, names, free, func(ctx context.Context, name string) (fencelock.Lock, error) {
		return l.engine.TryAcquire(ctx, name)
	})
}

// Status asks the server about name.
func (l *Locker) Status(ctx context.Context, name string) (fencelock.Status, error) {
	return l.engine.Status(ctx, name)
}

// Break ends a hold from outside; see fencelock.Breaker. Of the kinds that hold by a
// session it ends the session, which takes the server's role of it, or
// pg_signal_backend. It does not end a [TxLock], which has no token.
func (l *Locker) Break(ctx context.Context, name string, t fencelock.Token) error {
	return l.engine.Break(ctx, name, t)
}

// Close ends all waits, tells the holders that their locks are lost and releases
// them, waits for clean-ups until ctx ends, after which they go on in the
// background, and closes the Locker's own connections. The pool stays open.
// Close may be called again.
func (l *Locker) Close(ctx context.Context) error { return l.engine.Close(ctx) }
