package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/option"
	"github.com/fencelock/fencelock/internal/sqlkit"
)

// Tokens is a fencelock.TokenSource, as redlock.Tokens takes: the counter row
// that the locks of this package use, too. It is safe for concurrent use.
type Tokens struct {
	db     *database
	prefix string
	next   func(ctx context.Context, d *database, key string) (fencelock.Token, error)
}

// NewTokens returns a source whose every token is one UPDATE, for which callers
// queue at the row. Of the options, fencelock.Prefix, Schema and TablePrefix have
// a meaning here.
func NewTokens(pool *pgxpool.Pool, opts ...fencelock.Option) (*Tokens, error) {
	return newTokens("NewTokens", pool, opts, nextOfRow)
}

// NewOptimisticTokens returns a source that reads the counter and raises it if
// nobody else did meanwhile, again and again while ctx lives. Use it where it
// must not wait for row locks; for a name that many mint at once, NewTokens is the
// faster. Both may be used together.
func NewOptimisticTokens(pool *pgxpool.Pool, opts ...fencelock.Option) (*Tokens, error) {
	return newTokens("NewOptimisticTokens", pool, opts, nextOptimistic)
}

func newTokens(
	what string, pool *pgxpool.Pool, opts []fencelock.Option,
	next func(context.Context, *database, string) (fencelock.Token, error),
) (*Tokens, error) {
	db, set, err := open(what, pool, opts, option.Prefix)
	if err != nil {
		return nil, err
	}
	return &Tokens{db, set.Prefix, next}, nil
}

// Next returns a token greater than all that any source or Locker on this
// database, with these tables and this prefix, has returned for name. It is
// committed, and durable whatever the session's synchronous_commit.
func (t *Tokens) Next(ctx context.Context, name string) (fencelock.Token, error) {
	if err := lease.CheckName(name); err != nil {
		return 0, err
	}
	token, err := t.next(ctx, t.db, t.prefix+name)
	if err != nil {
		return 0, fmt.Errorf("fencelock: next token of %q: %w", name, err)
	}
	return token, nil
}

func nextOfRow(ctx context.Context, d *database, key string) (token fencelock.Token, err error) {
	err = d.with(ctx, func(c *pgx.Conn, mode []any) error {
		m, err := mint(ctx, c, d.t, key, "", 0, 1, mode...)
		token = m.last
		return err
	})
	return token, err
}

func nextOptimistic(ctx context.Context, d *database, key string) (fencelock.Token, error) {
	return sqlkit.Optimistic(ctx, counter{d, key})
}

// counter implements sqlkit.Counter.
type counter struct {
	db  *database
	key string
}

func (c counter) Read(ctx context.Context) (counter, now int64, err error) {
	var v view
	err = c.db.with(ctx, func(conn *pgx.Conn, mode []any) error {
		v, err = lookAt(ctx, conn, c.db.t, c.key, mode...)
		return err
	})
	return v.counter, v.now, err
}

func (c counter) Set(ctx context.Context, old, new int64) (bool, error) {
	done := false
	_, err := c.db.row(ctx, c.db.t.sql("swap.sql"), []any{keyArg(c.key), sqlkit.Label(c.key), old, new}, &done)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return done, err
}
