// Package sql is the code of docs/sql.md, as a user would write it. The tests run it
// and see to it that the page shows this text.
package sql

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/pg"
)

func payInvoice(ctx context.Context, pool *pgxpool.Pool, locker *pg.Locker, id string) error {
	return fencelock.WithLock(ctx, locker, id, func(ctx context.Context, token fencelock.Token) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			fence, err := pg.NewFence(tx)
			if err != nil {
				return err
			}
			if err := fence.Admit(ctx, id, token); err != nil {
				return err // errors.Is(err, fencelock.ErrStale): a later holder was here
			}
			_, err = tx.Exec(ctx, `UPDATE invoices SET paid = total WHERE id = $1`, id)
			return err
		})
	})
}

func renameInvoice(ctx context.Context, pool *pgxpool.Pool, id, title string, token fencelock.Token) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		r, err := tx.Exec(ctx, `UPDATE invoices SET title = $1, fence_token = $2 WHERE id = $3 AND fence_token <= $2`,
			title, int64(token), id)
		if err == nil && r.RowsAffected() == 0 {
			err = pg.StaleOrMissing(ctx, tx, id, token, `SELECT fence_token FROM invoices WHERE id = $1`, id)
		}
		return err
	})
}

func addToInvoice(ctx context.Context, pool *pgxpool.Pool, id string, amount int64) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		version, err := pg.TxLock(ctx, tx, id)
		if err != nil {
			return err
		}
		var total int64
		if err := tx.QueryRow(ctx, `SELECT total FROM invoices WHERE id = $1`, id).Scan(&total); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE invoices SET total = $2, version = $3 WHERE id = $1`, id, total+amount, int64(version))
		return err
	})
}
