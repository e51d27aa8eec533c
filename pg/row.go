package pg

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/sqlkit"
)

// NewRow returns a Locker whose locks are rows, locked FOR UPDATE by a
// transaction that stays open on a connection of its own. What is said of the
// connections of [NewAdvisory] holds here, too: one for each hold and each process
// that waits, a hold ends with it, and TTL is for New only (PostgreSQL 13 ends
// silent holders, too), and waiting processes are served in the same order.
//
// An open transaction keeps VACUUM from removing what has died since it began, so
// this is for holds of seconds or minutes. It needs a connection of the pool for a
// moment after the lock has been taken, to mint the tokens. NewAdvisory does the
// same for less; this is for those who want a lock that belongs to a table.
func NewRow(pool *pgxpool.Pool, opts ...fencelock.Option) (*Locker, error) {
	return newSessions("Row", pool, opts, func(d *database) kind { return row{d} })
}

// row is a kind. A row alone goes to whoever comes first after it has been
// unlocked, which is mostly the one who has unlocked it. So there is a gate before
// it, an advisory lock of two integers, where all but the first wait in order.
type row struct{ db *database }

// script fills in what row_*.sql are told of a key: its hash and its gate.
func (w row) script(files []string, key string) string {
	id := sqlkit.KeyOf(key)
	half := func(b []byte) string { return fmt.Sprintf("(%d)", int32(binary.BigEndian.Uint32(b))) }
	args := strings.NewReplacer("$1", "decode('"+id.Hex()+"', 'hex')", "$2", half(id[8:12]), "$3", half(id[12:16]))
	parts := []string{"BEGIN"}
	for _, file := range files {
		parts = append(parts, args.Replace(w.db.t.sql(file)))
	}
	return strings.Join(parts, ";\n")
}

// oneTrip runs a script in one trip. A batch of pgx would, when it is cut off, leave
// a goroutine behind, and otherwise a portal, whose snapshot would keep CREATE
// INDEX CONCURRENTLY waiting as long as the lock is held.
func oneTrip(ctx context.Context, c *pgx.Conn, script string) ([][][]byte, error) {
	results, err := c.PgConn().Exec(ctx, script).ReadAll()
	if err != nil {
		return nil, err
	}
	return results[len(results)-1].Rows, nil
}

func (w row) try(ctx context.Context, c *pgx.Conn, key string) (bool, error) {
	try := w.script([]string{"row_try.sql"}, key)
	for {
		rows, err := oneTrip(ctx, c, try)
		if err != nil || isTrue(rows[0][0]) {
			return err == nil, err
		}
		if err := rollback(ctx, c); err != nil || isTrue(rows[0][1]) {
			return false, err
		}
		id := sqlkit.KeyOf(key)
		if _, err := c.Exec(ctx, w.db.t.sql("row_make.sql"), id[:], sqlkit.Label(key)); err != nil {
			return false, err
		}
	}
}

func isTrue(column []byte) bool { return string(column) == "t" }

func (w row) wait(ctx context.Context, c *pgx.Conn, key string) (bool, error) {
	rows, err := oneTrip(ctx, c, w.script([]string{"row_enter.sql", "row_wait.sql"}, key))
	if err != nil || len(rows) == 1 {
		return err == nil, err
	}
	if err := w.clear(ctx, c); err != nil { // the row was pruned meanwhile
		return false, err
	}
	return w.try(ctx, c, key)
}

// mint commits the tokens by another connection, as the holder's transaction
// will be undone. If the session has died before that, somebody else may have
// got the lock, and lower tokens: so it must still answer after it.
func (w row) mint(ctx context.Context, c *pgx.Conn, r lease.Request) (m minted, since time.Time, err error) {
	err = w.db.with(ctx, func(other *pgx.Conn, mode []any) error {
		m, err = mint(ctx, other, w.db.t, r.Key, nameOf(c), r.Min, r.Tokens(), mode...)
		return err
	})
	if err != nil {
		return m, since, err
	}
	since = time.Now()
	return m, since, w.alive(ctx, c)
}

func (row) clear(ctx context.Context, c *pgx.Conn) error {
	if err := rollback(ctx, c); err != nil {
		return err
	}
	_, err := c.Exec(ctx, "SELECT pg_advisory_unlock_all()") // a gate
	return err
}

// rollback ends the transaction, if there is one, for less than a commit costs.
func rollback(ctx context.Context, c *pgx.Conn) error {
	if c.PgConn().TxStatus() == 'I' {
		return nil
	}
	_, err := c.Exec(ctx, "ROLLBACK")
	return err
}

func (w row) unlock(ctx context.Context, c *pgx.Conn, _ string) (bool, error) {
	was := c.PgConn().TxStatus() == 'T'
	return was, rollback(ctx, c)
}

var errNoTransaction = errors.New("the transaction that held the lock has ended")

func (row) alive(ctx context.Context, c *pgx.Conn) error {
	err := c.Ping(ctx)
	if err == nil && c.PgConn().TxStatus() != 'T' {
		err = errNoTransaction
	}
	return err
}
