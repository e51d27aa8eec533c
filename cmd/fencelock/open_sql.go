//go:build unix

package main

import (
	"context"
	"database/sql"
	"strings"

	sqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/mysql"
	"github.com/fencelock/fencelock/pg"
)

var postgresStyles = map[string]opener{
	"": openPostgres(pg.NewLease), "lease": openPostgres(pg.NewLease),
	"advisory": openPostgres(pg.NewAdvisory), "row": openPostgres(pg.NewRow),
}

// openPostgres leaves the URL to the client, which knows several hosts, service
// files and the environment as psql does.
func openPostgres(style func(*pgxpool.Pool, ...fencelock.Option) (*pg.Locker, error)) opener {
	return func(a address, opts []fencelock.Option) (backend, error) {
		_, rest, _ := strings.Cut(a.text, "://")
		config, err := pgxpool.ParseConfig("postgres://" + rest)
		if err != nil {
			return backend{}, err
		}
		config.MaxConns = max(config.MaxConns, 2)
		if config.ConnConfig.ConnectTimeout == 0 {
			config.ConnConfig.ConnectTimeout = defTimeout
		}
		pool, err := pgxpool.NewWithConfig(context.Background(), config)
		if err != nil {
			return backend{}, err
		}
		l, err := style(pool, opts...)
		b, err := with(l, err, pool.Close)
		b.migrate = func(ctx context.Context) error { return pg.Migrate(ctx, pool) }
		return b, err
	}
}

var mysqlStyles = map[string]opener{
	"": openMySQL(mysql.NewLease), "lease": openMySQL(mysql.NewLease),
	"advisory": openMySQL(mysql.NewAdvisory), "row": openMySQL(mysql.NewRow),
}

func openMySQL(style func(*sql.DB, ...fencelock.Option) (*mysql.Locker, error)) opener {
	return func(a address, opts []fencelock.Option) (backend, error) {
		config := sqldriver.NewConfig()
		config.Net, config.Addr, config.DBName = "tcp", a.ports("3306")[0], strings.Trim(a.path, "/")
		if a.user != nil {
			config.User = a.user.Username()
			config.Passwd, _ = a.user.Password()
		}
		// The rest is as in the driver's own notation, which checks it.
		dsn := config.FormatDSN()
		if len(a.query) > 0 {
			dsn, _, _ = strings.Cut(dsn, "?")
			dsn += "?" + a.query.Encode()
		}
		config, err := sqldriver.ParseDSN(dsn)
		if err != nil {
			return backend{}, err
		}
		if config.Timeout == 0 {
			config.Timeout = defTimeout
		}
		config.Logger = &sqldriver.NopLogger{} // it would print what it returns as well
		connector, err := sqldriver.NewConnector(config)
		if err != nil {
			return backend{}, err
		}
		db := sql.OpenDB(connector)
		l, err := style(db, opts...)
		b, err := with(l, err, func() { _ = db.Close() })
		b.migrate = func(ctx context.Context) error { return mysql.Migrate(ctx, db) }
		return b, err
	}
}
