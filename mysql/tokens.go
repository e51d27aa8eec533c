package mysql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/option"
	"github.com/fencelock/fencelock/internal/sqlkit"
)

// Tokens is a fencelock.TokenSource: a counter row per name, never below the
// microseconds of the server's clock, so that it survives the loss of the row. It
// is the counter of the Lockers of this package, too. It is safe for concurrent
// use.
type Tokens struct {
	tables tables
	pool   pool
	prefix string
	next   func(*Tokens, context.Context, values) (fencelock.Token, error)
}

// NewTokens returns a source whose Next is one UPDATE that commits by itself;
// those who ask at the same time wait for each other at the row. Of the options,
// fencelock.Prefix and TablePrefix have a meaning here.
func NewTokens(db *sql.DB, opts ...fencelock.Option) (*Tokens, error) {
	return newTokens("NewTokens", db, opts, (*Tokens).locking)
}

// NewOptimisticTokens returns a source that reads the counter and changes it if
// nobody else has done so meanwhile, again and again while ctx lives: for
// databases on which those who wait for a row's lock are cut off early, as
// distributed ones. It shares the counters of NewTokens.
func NewOptimisticTokens(db *sql.DB, opts ...fencelock.Option) (*Tokens, error) {
	return newTokens("NewOptimisticTokens", db, opts, (*Tokens).optimistic)
}

func newTokens(
	what string, db *sql.DB, opts []fencelock.Option, next func(*Tokens, context.Context, values) (fencelock.Token, error),
) (*Tokens, error) {
	t, set, err := only(what, opts, option.Prefix)
	if err != nil {
		return nil, err
	}
	if err := checkPool(db); err != nil {
		return nil, fmt.Errorf("fencelock: mysql.%s: %w", what, err)
	}
	return &Tokens{t, pool{db}, set.Prefix, next}, nil
}

// Next returns a token greater than all that any source or Locker on this
// database, with the same prefixes, has returned for name.
func (s *Tokens) Next(ctx context.Context, name string) (fencelock.Token, error) {
	if err := lease.CheckName(name); err != nil {
		return 0, err
	}
	key := s.prefix + name
	t, err := s.next(s, ctx, values{key: sqlkit.KeyOf(key), name: key, n: 1})
	if err != nil {
		return 0, fmt.Errorf("fencelock: next token of %q: %w", name, err)
	}
	return t, nil
}

func (s *Tokens) locking(ctx context.Context, v values) (fencelock.Token, error) {
	g, err := s.tables.mint(ctx, s.pool, v)
	return g.Last, err
}

func (s *Tokens) optimistic(ctx context.Context, v values) (fencelock.Token, error) {
	t, err := sqlkit.Optimistic(ctx, counter{s, v})
	return t, err
}

// counter is the sqlkit.Counter of a name.
type counter struct {
	*Tokens
	v values
}

func (c counter) Read(ctx context.Context) (counter, now int64, err error) {
	s, err := c.tables.look(ctx, c.pool, c.v)
	return s.token, s.now, err
}

func (c counter) Set(ctx context.Context, old, new int64) (bool, error) {
	c.v.min, c.v.token = fencelock.Token(old), fencelock.Token(new)
	word, err := c.pool.exec(ctx, c.tables.text(setSQL, c.v))
	if err == nil && word == 0 && old == 0 {
		word, err = c.pool.exec(ctx, c.tables.text(setNewSQL, c.v))
	}
	return word != 0, err
}
