// Package schema gives an example a corner of a PostgreSQL database that is its
// own, with fencelock's tables in it, and takes it away again.
package schema

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock/examples/internal/machine"
	"github.com/fencelock/fencelock/pg"
)

// Open returns a pool of up to conns connections to a schema of the database at
// url. Unless it exists, Create must come first.
func Open(ctx context.Context, url, name string, conns int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["search_path"] = name
	config.MaxConns = conns
	return pgxpool.NewWithConfig(ctx, config)
}

// Create makes the schema anew, with fencelock's tables and those of ddl, and
// returns a function that drops it.
func Create(ctx context.Context, url, name, ddl string) (drop func() error, err error) {
	pool, err := Open(ctx, url, name, 2)
	if err != nil {
		return nil, err
	}
	drop = func() error {
		defer pool.Close()
		_, err := pool.Exec(context.WithoutCancel(ctx), "DROP SCHEMA IF EXISTS "+name+" CASCADE")
		return err
	}
	_, err = pool.Exec(ctx, fmt.Sprintf("DROP SCHEMA IF EXISTS %s CASCADE; CREATE SCHEMA %[1]s", name))
	if err == nil {
		err = pg.Migrate(ctx, pool)
	}
	if err == nil {
		_, err = pool.Exec(ctx, ddl)
	}
	if err != nil {
		return nil, errors.Join(err, drop())
	}
	return drop, nil
}

// OnPostgres calls f with a PostgreSQL, the one at url or one that is started
// from this machine's programs, in which a schema of this name has the tables. The
// schema is dropped afterwards.
func OnPostgres(
	ctx context.Context, url, name, tables string, f func(url string, pool *pgxpool.Pool) error,
) (err error) {
	url, stop, err := machine.Postgres(url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	drop, err := Create(ctx, url, name, tables)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop()) }()
	pool, err := Open(ctx, url, name, 2)
	if err != nil {
		return err
	}
	defer pool.Close()
	return f(url, pool)
}
