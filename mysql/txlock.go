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

// TxToken is a fencing token that belongs to a transaction. It is greater than
// all earlier tokens of its name, but it is no fencelock.Token: if the transaction
// is rolled back, so is the counter, and the next holder may get the same number.
// Write it into the database within the transaction only; a store elsewhere would
// take the two for one holder.
type TxToken int64

// TxLock locks name until tx ends, against other transactions that do so and
// against the holders of NewRow. It waits for them until ctx ends, which, in
// database/sql, ends the connection and so the transaction. Nothing needs to be
// renewed or released, and there is no loss to be told of: if the connection
// breaks, all of the transaction is undone.
//
// It should be the first statement of the transaction: under REPEATABLE READ, the
// default, what was read before the lock was had may be out of date, and so
// is all that is read later. After a deadlock (error 1213), which two
// transactions that lock several names in different orders run into, the server has
// rolled tx back: run it again. Do not call it below a savepoint to which you may
// roll back.
//
// Of the options, fencelock.Prefix and TablePrefix have a meaning here.
func TxLock(ctx context.Context, tx *sql.Tx, name string, opts ...fencelock.Option) (TxToken, error) {
	t, set, err := only("TxLock", opts, option.Prefix)
	if err == nil && tx == nil {
		err = fmt.Errorf("fencelock: mysql.TxLock: %w", errNilTx)
	}
	if err == nil {
		err = lease.CheckName(name)
	}
	if err != nil {
		return 0, err
	}
	key := set.Prefix + name
	token, err := t.txLock(ctx, inTx{tx}, values{key: sqlkit.KeyOf(key), name: key, n: 1})
	if err != nil {
		return 0, fmt.Errorf("fencelock: lock %q in the transaction: %w", name, err)
	}
	return token, nil
}

func (t tables) txLock(ctx context.Context, tx inTx, v values) (TxToken, error) {
	for {
		_, err := tx.exec(ctx, t.text(rowSQL, v))
		if err == nil {
			break
		}
		if number(err) != errLockWait {
			return 0, err
		}
		// Only the statement was rolled back, unless the server is set to roll
		// everything back: then what followed would commit by itself and lock nothing.
		var all bool
		if e := tx.row(ctx, "SELECT @@innodb_rollback_on_timeout", &all); e != nil || all {
			return 0, errors.Join(err, e)
		}
	}
	g, err := t.mint(ctx, tx, v)
	return TxToken(g.Last), err
}
