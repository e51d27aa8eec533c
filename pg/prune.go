package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/sqlkit"
)

// Prune deletes what is kept for names that were not used for a week, and
// returns the number of names. It is safe at any time: a token of a week ago
// lies below the clock, from which a new counter starts. It reads the whole table.
// Fences are not touched; delete them with the data they guard. Of the
// options, Schema and TablePrefix have a meaning here.
func Prune(ctx context.Context, pool *pgxpool.Pool, opts ...fencelock.Option) (int64, error) {
	db, _, err := open("Prune", pool, opts, 0)
	if err != nil {
		return 0, err
	}
	var n int64
	if _, err := db.row(ctx, db.t.sql("prune.sql"), []any{7 * sqlkit.Day}, &n); err != nil {
		return 0, fmt.Errorf("fencelock: pg.Prune: %w", err)
	}
	return n, nil
}
