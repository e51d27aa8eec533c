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

// Fence guards data of this database, inside one transaction of yours; it
// implements fencelock.Fence. It is independent of the backend that the tokens
// come from.
//
// Admit locks the fence's row until the transaction ends, so that no later
// holder is admitted between this check and your commit. A rollback takes the
// claim back; a rollback to a savepoint that was set before Admit does too, and
// then the fence does not guard what you write afterwards.
//
// A Fence is not safe for concurrent use, as its transaction is not.
type Fence struct {
	tx     inTx
	tables tables
	prefix string
	strict bool
}

// NewFence returns a fence for the rest of tx. Of the options, fencelock.Prefix
// and TablePrefix have a meaning here.
func NewFence(tx *sql.Tx, opts ...fencelock.Option) (*Fence, error) {
	t, set, err := only("NewFence", opts, option.Prefix)
	if err == nil && tx == nil {
		err = fmt.Errorf("fencelock: mysql.NewFence: %w", errNilTx)
	}
	if err != nil {
		return nil, err
	}
	return &Fence{tx: inTx{tx}, tables: t, prefix: set.Prefix}, nil
}

var errNilTx = errors.New("the transaction is nil: begin one with BeginTx")

// Strict returns the same fence with strict writes: each Admit is a write, and
// each token may write once. Use it where a write must not be repeated, as for
// an increment.
func (f *Fence) Strict() *Fence {
	s := *f
	s.strict = true
	return &s
}

// ErrReadBefore is the error of an Admit in a transaction that has read too
// early.
var ErrReadBefore = errors.New("fencelock: the transaction has read before it was admitted, and others have written since")

// Admit claims name for t; see fencelock.Fence. It should be the first
// statement of the transaction.
//
// Under REPEATABLE READ, the default, a transaction goes on to read what was
// there at its first read, and would write back old values of what another holder
// has written before Admit had its turn. Such an Admit fails with ErrReadBefore:
// roll back, and admit first. Under READ COMMITTED there is no such danger.
//
// After a refusal the transaction should be rolled back. After a deadlock
// (error 1213) the server has done so: run it again.
func (f *Fence) Admit(ctx context.Context, name string, t fencelock.Token) error {
	if err := lease.CheckName(name); err != nil {
		return err
	}
	if err := sqlkit.CheckToken(name, t); err != nil {
		return err
	}
	key := f.prefix + name
	err := f.admit(ctx, name, values{key: sqlkit.KeyOf(key), name: key, token: t, strict: f.strict})
	if err != nil && !errors.Is(err, fencelock.ErrStale) {
		return fmt.Errorf("fencelock: fence %q: %w", name, err)
	}
	return err
}

func (f *Fence) admit(ctx context.Context, name string, v values) error {
	current, err := f.tx.exec(ctx, f.tables.text(enterSQL, v))
	if err != nil || current == 0 { // a new row: nobody was admitted before
		return err
	}
	// The row is locked now, and does not show as changed by ourselves. What the
	// snapshot shows of it is out of date iff another has been admitted since it was taken.
	var admissions uint64
	var claimed, written fencelock.Token
	if err := f.tx.row(ctx, f.tables.text(snapshotSQL, v), &admissions, &claimed, &written); err != nil {
		return err
	}
	switch {
	case admissions != current:
		return ErrReadBefore
	case v.token < claimed:
		return &fencelock.StaleError{Name: name, Have: v.token, Want: claimed}
	case v.strict && v.token <= written: // it is claimed, too
		return &fencelock.StaleError{Name: name, Have: v.token, Want: max(written, written+1)}
	}
	_, err = f.tx.exec(ctx, f.tables.text(admitSQL, v))
	return err
}

// ErrNoRow is what StaleOrMissing returns if there is no row.
var ErrNoRow = sqlkit.ErrNoRow

// StaleOrMissing says why a fenced UPDATE, such as
//
//	UPDATE accounts SET balance = ?, fence_token = ? WHERE id = ? AND fence_token <= ?
//
// has changed no row. query selects the fence_token of that row, by args, in the
// same transaction, FOR UPDATE, since a plain SELECT may show an old value. The
// error is a *fencelock.StaleError if the row's token is above t, ErrNoRow if
// there is no such row, else one that says that another part of the WHERE excludes
// the row, or the row has changed since. The column should be BIGINT NOT NULL
// DEFAULT 0.
//
// Mind that the server reports 0 rows, too, for an UPDATE that finds its row and
// sets all columns to what they are, unless the DSN says clientFoundRows=true.
func StaleOrMissing(ctx context.Context, tx *sql.Tx, name string, t fencelock.Token, query string, args ...any) error {
	if tx == nil {
		return fmt.Errorf("fencelock: mysql.StaleOrMissing: %w", errNilTx)
	}
	var have sql.NullInt64
	switch err := tx.QueryRowContext(ctx, query, args...).Scan(&have); {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("fencelock: %q: %w", name, ErrNoRow)
	case err != nil:
		return fmt.Errorf("fencelock: %q: %w", name, failure(ctx, err))
	case !have.Valid:
		return fmt.Errorf("fencelock: %q: the row's token is NULL, which no comparison admits: declare it NOT NULL DEFAULT 0", name)
	}
	return sqlkit.Classify(name, t, fencelock.Token(have.Int64))
}
