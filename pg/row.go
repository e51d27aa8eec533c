package pg

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/sqlkit"
)

// NewRow returns a Locker whose locks are rows, locked FOR UPDATE by a
// transaction that stays open on a connection of its own. What is said of the
// connections of [NewAdvisory] holds here, too: one for each hold and each process
// that waits, a hold ends with it, and TTL is for New only (PostgreSQL 13 ends
// silent holders, too). Waiting processes are served in about the order they came.
//
// An open transaction keeps VACUUM from removing what has died since it began, so
// this is for holds of seconds or minutes. The lock is not visible to, and does
// not last as, an advisory lock; NewAdvisory does the same with less, and this is
// for databases where advisory locks are not to be had.
func NewRow(pool *pgxpool.Pool, opts ...fencelock.Option) (*Locker, error) {
	return newSessions("Row", "row_look.sql", pool, opts, func(d *database) kind { return row{d} })
}

// row is a kind.
type row struct{ db *database }

func (w row) try(ctx context.Context, c *pgx.Conn, key string) (bool, error) {
	id := sqlkit.KeyOf(key)
	for {
		var got, exists bool
		b := &pgx.Batch{}
		b.Queue("BEGIN")
		b.Queue(w.db.t.sql("row_try.sql"), id[:]).QueryRow(func(r pgx.Row) error { return r.Scan(&got, &exists) })
		err := c.SendBatch(ctx, b).Close()
		if err != nil || got {
			return got, err
		}
		if err := w.clear(ctx, c); err != nil || exists {
			return false, err
		}
		if _, err := c.Exec(ctx, w.db.t.sql("row_make.sql"), id[:], sqlkit.Label(key)); err != nil {
			return false, err
		}
	}
}

// wait returns false if the row was pruned meanwhile.
func (w row) wait(ctx context.Context, c *pgx.Conn, key string) (bool, error) {
	id := sqlkit.KeyOf(key)
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	rows := int64(0)
	b.Queue(w.db.t.sql("row_wait.sql"), id[:]).Exec(func(tag pgconn.CommandTag) error {
		rows = tag.RowsAffected()
		return nil
	})
	err := c.SendBatch(ctx, b).Close()
	if err != nil || rows == 1 {
		return rows == 1, err
	}
	if err := w.clear(ctx, c); err != nil {
		return false, err
	}
	return w.try(ctx, c, key)
}

// mint commits the tokens by another connection, as the holder's transaction
// will be undone. If the session has died before that, somebody else may have
// got the lock, and lower tokens: so it must still answer after it.
func (w row) mint(ctx context.Context, c *pgx.Conn, r lease.Request) (m minted, since time.Time, err error) {
	err = w.db.with(ctx, func(other *pgx.Conn, mode []any) error {
		m, err = mint(ctx, other, w.db.t, r.Key, r.Min, r.Tokens(), mode...)
		return err
	})
	if err != nil {
		return m, since, err
	}
	since = time.Now()
	return m, since, w.alive(ctx, c)
}

// clear undoes the transaction, which costs less than to commit it.
func (row) clear(ctx context.Context, c *pgx.Conn) error {
	if c.PgConn().TxStatus() == 'I' {
		return nil
	}
	_, err := c.Exec(ctx, "ROLLBACK")
	return err
}

func (w row) unlock(ctx context.Context, c *pgx.Conn, _ string) (bool, error) {
	was := c.PgConn().TxStatus() == 'T'
	return was, w.clear(ctx, c)
}

var errNoTransaction = errors.New("the transaction that held the lock has ended")

func (row) alive(ctx context.Context, c *pgx.Conn) error {
	if err := c.Ping(ctx); err != nil || c.PgConn().TxStatus() == 'T' {
		return err
	}
	return errNoTransaction
}
