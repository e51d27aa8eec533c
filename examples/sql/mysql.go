package sql

import (
	"context"
	"database/sql"
	"errors"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/mysql"
)

func payInvoiceMySQL(ctx context.Context, db *sql.DB, locker *mysql.Locker, id string) error {
	return fencelock.WithLock(ctx, locker, id, func(ctx context.Context, token fencelock.Token) (err error) {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end(tx, err)) }()
		fence, err := mysql.NewFence(tx)
		if err != nil {
			return err
		}
		if err := fence.Admit(ctx, id, token); err != nil { // the first statement of the transaction
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE invoices SET paid = total WHERE id = ?`, id)
		return err
	})
}

func addToInvoiceMySQL(ctx context.Context, db *sql.DB, id string, amount int64) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end(tx, err)) }()
	version, err := mysql.TxLock(ctx, tx, id) // the first statement of the transaction
	if err != nil {
		return err
	}
	var total int64
	if err := tx.QueryRowContext(ctx, `SELECT total FROM invoices WHERE id = ?`, id).Scan(&total); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE invoices SET total = ?, version = ? WHERE id = ?`, total+amount, int64(version), id)
	return err
}

func end(tx *sql.Tx, err error) error {
	if err != nil {
		return tx.Rollback()
	}
	return tx.Commit()
}
