package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/sqlkit"
)

// NewAdvisory returns a Locker whose locks are pg_advisory_locks. Each hold, and
// each process that waits for a name, has a connection of its own, made as the
// pool makes them but not counted by it; a few that are free are kept until the
// Locker is idle. Waiting processes are served first come, first served, except
// that one that has waited for 30 seconds joins the queue again, at its end.
//
// A hold ends with its connection: the holder is told as soon as the connection
// is seen to break, and a server that hears nothing for the TTL ends it
// (PostgreSQL 13 does not: there, a client that hangs without its machine having
// gone keeps the lock). So TTL is for New only. A failover ends all holds.
//
// [TxLock] with the same prefix and name excludes it, and so does whoever takes
// the advisory lock of the first eight bytes of the SHA-256 of prefix and name. A
// pooler in transaction mode is refused with the first acquire.
func NewAdvisory(pool *pgxpool.Pool, opts ...fencelock.Option) (*Locker, error) {
	return newSessions("Advisory", pool, opts, func(d *database) kind { return advisory{d.t} })
}

// advisory is a kind.
type advisory struct{ t *tables }

func (advisory) try(ctx context.Context, c *pgx.Conn, key string) (got bool, err error) {
	err = c.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", sqlkit.KeyOf(key).Int64()).Scan(&got)
	return got, err
}

func (advisory) wait(ctx context.Context, c *pgx.Conn, key string) (bool, error) {
	_, err := c.Exec(ctx, "SELECT pg_advisory_lock($1)", sqlkit.KeyOf(key).Int64())
	return err == nil, err
}

// mint runs on the session that has the lock: if that has ended, so has this.
func (a advisory) mint(ctx context.Context, c *pgx.Conn, r lease.Request) (m minted, since time.Time, err error) {
	err = sqlkit.Retry(ctx, isAgain, func() error {
		since = time.Now()
		m, err = mint(ctx, c, a.t, r.Key, nameOf(c), r.Min, r.Tokens())
		return err
	})
	return m, since, err
}

func (advisory) clear(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, "SELECT pg_advisory_unlock_all()")
	return err
}

func (advisory) unlock(ctx context.Context, c *pgx.Conn, key string) (was bool, err error) {
	err = c.QueryRow(ctx, "SELECT pg_advisory_unlock($1)", sqlkit.KeyOf(key).Int64()).Scan(&was)
	return was, err
}

func (advisory) alive(ctx context.Context, c *pgx.Conn) error { return c.Ping(ctx) }
