package migrating

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/pg"
)

func pglockNew(ctx context.Context, pool *pgxpool.Pool, report func(context.Context, fencelock.Token) error) error {
	if err := pg.Migrate(ctx, pool); err != nil { // once, with your other migrations
		return err
	}
	locker, err := pg.NewLease(pool)
	if err != nil {
		return err
	}
	return fencelock.WithLock(ctx, locker, "report", report)
}
