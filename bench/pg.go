package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/pg"
)

func init() {
	starters["pg"] = func(m *machine) server {
		s := testserver.StartPostgres(m, "max_connections=400")
		return server{addrs: []string{s.URL()}}
	}
	register(
		contender{who: "fencelock/pg.NewAdvisory", kind: "pg", open: ourPG(pg.NewAdvisory)},
		contender{who: "fencelock/pg.NewRow", kind: "pg", open: ourPG(pg.NewRow)},
		contender{who: "fencelock/pg.NewLease", kind: "pg", open: ourPG(pg.NewLease)},
		contender{who: "pg session advisory lock", kind: "pg", peer: true, open: openAdvisory},
	)
}

func pool(addrs []string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(addrs[0])
	if err != nil {
		return nil, err
	}
	config.MaxConns = 16
	return pgxpool.NewWithConfig(context.Background(), config)
}

func ourPG[L interface {
	fencelock.Locker
	Close(context.Context) error
}](create func(*pgxpool.Pool, ...fencelock.Option) (L, error)) func([]string) (locker, error) {
	return func(addrs []string) (locker, error) {
		p, err := pool(addrs)
		if err != nil {
			return nil, err
		}
		if err := pg.Migrate(context.Background(), p); err != nil {
			return nil, err
		}
		l, err := create(p)
		return ours{l, func() error { p.Close(); return nil }}, err
	}
}

// advisoryLock is what people write by hand.
type advisoryLock struct{ *pgxpool.Pool }

func openAdvisory(addrs []string) (locker, error) {
	p, err := pool(addrs)
	return advisoryLock{p}, err
}

func (a advisoryLock) Lock(ctx context.Context, name string) (func(context.Context) error, error) {
	c, err := a.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := c.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))", name); err != nil {
		c.Release()
		return nil, err
	}
	return func(ctx context.Context) error {
		defer c.Release()
		var unlocked bool
		err := c.QueryRow(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", name).Scan(&unlocked)
		if err == nil && !unlocked {
			err = errors.New("was not locked")
		}
		return err
	}, nil
}

func (a advisoryLock) Close() error { a.Pool.Close(); return nil }
