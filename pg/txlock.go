package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/option"
	"github.com/fencelock/fencelock/internal/sqlkit"
)

// TxToken is the number that TxLock returns. It rises from one committed
// transaction that had the lock to the next, so it may serve as a version of the
// data. It is no fencelock.Token: a rollback undoes it, and then the next
// transaction gets the same number, so a fence elsewhere cannot tell the two
// apart.
type TxToken int64

// TxLock locks name for the rest of tx, which must be an outermost transaction
// without savepoints (pgx leaves that of a nested one that was rolled back), and
// waits for it until ctx ends; as always in pgx, the end of ctx then ends the
// connection and with it tx. With fencelock.Wait(0) it makes one attempt, whose
// error matches fencelock.ErrHeld and leaves tx as it was. The lock cannot be
// lost while tx can still commit, so writes in tx need no fence. It excludes
// other TxLocks and the holders of NewAdvisory on that name, and works behind
// poolers.
//
// The wait is for an advisory lock, whose statement does not see what was
// committed while it waited, but those that follow it do under READ COMMITTED.
// Under REPEATABLE READ or SERIALIZABLE a TxLock that had to wait fails with
// SQLSTATE 40001 rather than let you read old data: run the transaction again.
//
// Do not use a name for TxLock and for a lease, row lock or token source:
// they share a counter, which tx keeps locked until it ends. Of the options,
// fencelock.Prefix, fencelock.Wait(0), Schema and TablePrefix have a meaning here.
func TxLock(ctx context.Context, tx pgx.Tx, name string, opts ...fencelock.Option) (TxToken, error) {
	t, set, err := inTx("TxLock", tx, opts, option.Prefix|option.Wait)
	if err != nil {
		return 0, err
	}
	if set.Given(option.Wait) && set.Wait > 0 {
		return 0, fmt.Errorf("fencelock: pg.TxLock: option Wait(%v): only Wait(0) has a meaning here; end ctx instead", set.Wait)
	}
	if err := lease.CheckName(name); err != nil {
		return 0, err
	}
	key := set.Prefix + name
	lock, got := sqlkit.KeyOf(key).Int64(), true
	if set.Given(option.Wait) {
		err = tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock($1::bigint)", pgx.QueryExecModeExec, lock).Scan(&got)
	} else {
		_, err = tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1::bigint)", pgx.QueryExecModeExec, lock)
	}
	if err == nil && !got {
		return 0, &fencelock.HeldError{Name: name}
	}
	var m minted
	if err == nil {
		m, err = mint(ctx, tx, t, key, "", 0, 1, pgx.QueryExecModeExec)
	}
	if err == nil && !m.top {
		err = errNested // the lock, too, would end with the savepoint
	}
	if err != nil {
		return 0, fmt.Errorf("fencelock: lock %q in a transaction: %w", name, err)
	}
	return TxToken(m.last), nil
}
