package pg

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/jackc/pgx/v5"

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
// holder is admitted between this check and your commit. Call it before you read
// what you will write. Under REPEATABLE READ or SERIALIZABLE an Admit that had to
// wait, or comes after a read that is out of date, fails with SQLSTATE 40001, as
// any UPDATE would: run the transaction again. A rollback takes the claim back.
//
// A Fence is not safe for concurrent use, as its transaction is not.
type Fence struct {
	tx     pgx.Tx
	t      *tables
	prefix string
	strict bool
}

// NewFence returns a fence for the rest of tx. It cannot work below a savepoint,
// as in a nested transaction, since a rollback to that would take the claim back
// and let the outer transaction write all the same: there Admit fails. pgx leaves
// the savepoint of a nested transaction that was rolled back, so Admit must come
// before it, too. Of the options,
// fencelock.Prefix, Schema and TablePrefix have a meaning here.
func NewFence(tx pgx.Tx, opts ...fencelock.Option) (*Fence, error) {
	t, set, err := inTx("NewFence", tx, opts, option.Prefix)
	if err != nil {
		return nil, err
	}
	return &Fence{tx: tx, t: t, prefix: set.Prefix}, nil
}

// Strict returns the same fence with strict writes: each Admit is a write, and
// each token may write once. Use it where a write must not be repeated, as for
// an increment.
func (f *Fence) Strict() *Fence {
	s := *f
	s.strict = true
	return &s
}

var errNested = errors.New("there is a savepoint, and a rollback to that would undo this without undoing the whole: " +
	"do it in the outermost transaction, before any nested one (pgx leaves the savepoint of one that was rolled back)")

// Admit claims name for t; see fencelock.Fence. After an error that is no
// *fencelock.StaleError the transaction can only be rolled back; after a refusal
// it should be.
func (f *Fence) Admit(ctx context.Context, name string, t fencelock.Token) error {
	if err := lease.CheckName(name); err != nil {
		return err
	}
	if err := sqlkit.CheckToken(name, t); err != nil {
		return err
	}
	key := f.prefix + name
	top := false
	err := f.tx.QueryRow(ctx, f.t.sql("admit.sql"), pgx.QueryExecModeExec, keyArg(key), sqlkit.Label(key), int64(t), f.strict).Scan(&top)
	if errors.Is(err, pgx.ErrNoRows) {
		var want int64
		err = f.tx.QueryRow(ctx, "SELECT greatest(claimed, CASE WHEN $2::boolean THEN written + 1 ELSE 0 END) FROM "+f.t.fences+
			" WHERE key = $1::bytea", pgx.QueryExecModeExec, keyArg(key), f.strict).Scan(&want)
		if err == nil {
			return &fencelock.StaleError{Name: name, Have: t, Want: fencelock.Token(want)}
		}
	}
	if err == nil && !top {
		err = errNested
	}
	if err != nil {
		return fmt.Errorf("fencelock: fence %q: %w", name, explain(err))
	}
	return nil
}

// ErrNoRow is what StaleOrMissing returns if there is no row.
var ErrNoRow = sqlkit.ErrNoRow

// StaleOrMissing says why a fenced UPDATE, such as
//
//	UPDATE accounts SET balance = $1, fence_token = $2 WHERE id = $3 AND fence_token <= $2
//
// has changed no row. query selects the fence_token of that row, by args, in the
// same transaction. The error is a *fencelock.StaleError if the row's token is
// above t, ErrNoRow if there is no such row, else one that says that another part
// of the WHERE excludes the row, or the row has changed since. The column should be
// bigint NOT NULL DEFAULT 0.
func StaleOrMissing(ctx context.Context, tx pgx.Tx, name string, t fencelock.Token, query string, args ...any) error {
	if isNil(tx) {
		return fmt.Errorf("fencelock: pg.StaleOrMissing: %w", errNilTx)
	}
	var have *int64
	switch err := tx.QueryRow(ctx, query, args...).Scan(&have); {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("fencelock: %q: %w", name, ErrNoRow)
	case err != nil:
		return fmt.Errorf("fencelock: %q: %w", name, err)
	case have == nil:
		return fmt.Errorf("fencelock: %q: the row's token is NULL, which no comparison admits: declare it NOT NULL DEFAULT 0", name)
	}
	return sqlkit.Classify(name, t, fencelock.Token(*have))
}

var errNilTx = errors.New("the transaction is nil")

func isNil(tx pgx.Tx) bool {
	v := reflect.ValueOf(tx)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// inTx checks the arguments of what works in a transaction of the caller's.
func inTx(what string, tx pgx.Tx, opts []fencelock.Option, fields option.Field) (*tables, option.Set, error) {
	set, err := sqlkit.Only("pg", what, opts, fields, ownKeys...)
	if err != nil {
		return nil, set, err
	}
	var t *tables
	if isNil(tx) {
		err = errNilTx
	} else {
		t, err = tablesOf(set)
	}
	if err != nil {
		return nil, set, fmt.Errorf("fencelock: pg.%s: %w", what, err)
	}
	return t, set, nil
}
