package pg

import (
	"context"
	"errors"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/sqlkit"
)

// minted is a block of tokens.
type minted struct {
	first, last fencelock.Token
	top         bool // not below a savepoint
}

// querier runs a statement: a connection, a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// mint raises the counter of key and returns a block of at most n tokens, all
// greater than min. Outside a transaction it is committed, durably, when mint
// returns; inside one, a rollback undoes it. Whoever may, tries again after an
// error that isAgain. session is that whose lock the tokens are for, if it is one.
// mode is the first argument of a statement, if any.
func mint(
	ctx context.Context, q querier, t *tables, key, session string, min fencelock.Token, n int, mode ...any,
) (m minted, err error) {
	if min == math.MaxInt64 {
		return m, sqlkit.Exhausted(min)
	}
	args := append(mode, keyArg(key), sqlkit.Label(key), int64(min)+1, max(1, n), session)
	err = q.QueryRow(ctx, t.sql("mint.sql"), args...).Scan(&m.first, &m.last, &m.top)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		l, err := lookAt(ctx, q, t, key, mode...)
		if err != nil {
			return m, err
		}
		return m, sqlkit.Ahead(min, max(l.counter, l.now))
	case code(err) == outOfRange:
		return m, sqlkit.Exhausted(min)
	}
	return m, explain(err)
}

// view is what the row of a name says.
type view struct {
	counter, now    int64
	first           fencelock.Token // of the owner
	owner, released *string
	left            int64 // microseconds
}

func (v view) held() bool { return v.owner != nil && v.left > 0 }

func lookAt(ctx context.Context, q querier, t *tables, key string, mode ...any) (v view, err error) {
	err = q.QueryRow(ctx, t.sql("look.sql"), append(mode, keyArg(key))...).
		Scan(&v.counter, &v.now, &v.first, &v.owner, &v.released, &v.left)
	return v, explain(err)
}
