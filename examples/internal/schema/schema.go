// Package schema gives an example a corner of a PostgreSQL database that is its
// own, with fencelock's tables in it, and takes it away again.
package schema

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

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
