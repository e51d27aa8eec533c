package mysql

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/sqlkit"
)

// week is how long a counter has rested before it is pruned. The clock has left
// it behind by then, so a new one begins above it.
const week = 7 * sqlkit.Day

const (
	oldSQL = `SELECT LOWER(HEX(lock_key)) FROM $locks WHERE ` + isOld + ` LIMIT 500`

	pruneSQL = `DELETE FROM $locks WHERE lock_key IN ($keys) AND ` + isOld

	isOld = `(owner IS NULL OR expires_at <= ` + clock + `) AND GREATEST(token, expires_at) < ` + clock + ` - $week`

	idleSQL = `SELECT LOWER(HEX(r.lock_key)) FROM $rows AS r LEFT JOIN $locks AS l ON l.lock_key = r.lock_key
WHERE l.lock_key IS NULL LIMIT 500`

	unlockedSQL = `SELECT LOWER(HEX(lock_key)) FROM $rows WHERE lock_key IN ($keys) FOR UPDATE SKIP LOCKED`

	pruneRowsSQL = `DELETE FROM $rows WHERE lock_key IN ($keys)`
)

// Prune deletes the rows of names that nobody holds and for which no token was
// minted for 7 days, and returns how many names that were. Locking goes on
// meanwhile. Where names are used once, such as order numbers, call it now and
// then. It leaves the fence alone, whose rows live as long as the data. The
// only option with a meaning here is TablePrefix.
func Prune(ctx context.Context, db *sql.DB, opts ...fencelock.Option) (int64, error) {
	t, _, err := only("Prune", opts, 0)
	if err == nil {
		if err = checkPool(db); err != nil {
			err = fmt.Errorf("fencelock: mysql.Prune: %w", err)
		}
	}
	if err != nil {
		return 0, err
	}
	n, err := t.prune(ctx, pool{db})
	if err == nil {
		err = t.pruneRows(ctx, pool{db})
	}
	if err != nil {
		return n, fmt.Errorf("fencelock: prune: %w", err)
	}
	return n, nil
}

// batches calls f with the keys that query finds, until it finds none, or f has
// left all of them.
func (t tables) batches(ctx context.Context, p pool, query string, f func(keys []sqlkit.Key) (int64, error)) (int64, error) {
	var total int64
	for {
		found, err := p.column(ctx, t.text(query, values{}))
		if err != nil || len(found) == 0 {
			return total, err
		}
		n, err := f(parseKeys(found))
		total += n
		if err != nil || n == 0 {
			return total, err
		}
	}
}

// prune looks without locking first: a DELETE locks all rows that it reads.
func (t tables) prune(ctx context.Context, p pool) (int64, error) {
	return t.batches(ctx, p, oldSQL, func(keys []sqlkit.Key) (n int64, err error) {
		err = sqlkit.Retry(ctx, again, func() error {
			res, err := p.db.ExecContext(ctx, t.text(pruneSQL, values{keys: keys}))
			if err == nil {
				n, err = res.RowsAffected()
			}
			return failure(ctx, err)
		})
		return n, err
	})
}

// pruneRows deletes the rows without a counter that nobody has locked.
func (t tables) pruneRows(ctx context.Context, p pool) error {
	_, err := t.batches(ctx, p, idleSQL, func(keys []sqlkit.Key) (n int64, err error) {
		err = sqlkit.Retry(ctx, again, func() error {
			n, err = t.pruneUnlocked(ctx, p, keys)
			return err
		})
		return n, err
	})
	return err
}

func (t tables) pruneUnlocked(ctx context.Context, p pool, keys []sqlkit.Key) (int64, error) {
	tx, err := p.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return 0, failure(ctx, err)
	}
	defer func() { _ = tx.Rollback() }() // nothing after a Commit
	found, err := column(ctx, tx, t.text(unlockedSQL, values{keys: keys}))
	if err != nil || len(found) == 0 {
		return 0, err
	}
	if _, err := exec(ctx, tx, t.text(pruneRowsSQL, values{keys: parseKeys(found)})); err != nil {
		return 0, err
	}
	return int64(len(found)), failure(ctx, tx.Commit())
}

// parseKeys reads what LOWER(HEX(lock_key)) gave.
func parseKeys(hexes []string) []sqlkit.Key {
	keys := make([]sqlkit.Key, len(hexes))
	for i, h := range hexes {
		_, _ = hex.Decode(keys[i][:], []byte(h))
	}
	return keys
}
