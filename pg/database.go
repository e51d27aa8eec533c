package pg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/option"
	"github.com/fencelock/fencelock/internal/sqlkit"
)

// database is the caller's pool, and how to talk through it.
type database struct {
	pool *pgxpool.Pool
	t    *tables
	path atomic.Int32 // what is between us and the server: unseen, direct, pooler
}

const (
	unseen = iota
	direct
	pooler
)

func openDatabase(pool *pgxpool.Pool, set option.Set) (*database, error) {
	if pool == nil {
		return nil, errors.New("the pool is nil")
	}
	t, err := tablesOf(set)
	if err != nil {
		return nil, err
	}
	return &database{pool: pool, t: t}, nil
}

// open is for what is no Locker: only the given fields have a meaning there.
func open(what string, pool *pgxpool.Pool, opts []fencelock.Option, fields option.Field) (*database, option.Set, error) {
	set, err := sqlkit.Only("pg", what, opts, fields, ownKeys...)
	if err != nil {
		return nil, set, err
	}
	db, err := openDatabase(pool, set)
	if err != nil {
		return nil, set, fmt.Errorf("fencelock: pg.%s: %w", what, err)
	}
	return db, set, nil
}

// with runs f on a connection of the pool, in a mode that works there, and again
// if the server says so. What f does must be one statement.
func (d *database) with(ctx context.Context, f func(c *pgx.Conn, mode []any) error) error {
	err := sqlkit.Retry(ctx, isAgain, func() error {
		c, err := d.pool.Acquire(ctx)
		if err != nil {
			return lease.Definite(fmt.Errorf("no connection: %w", err))
		}
		defer c.Release()
		mode, err := d.mode(ctx, c.Conn())
		if err != nil {
			return lease.Definite(err)
		}
		return f(c.Conn(), mode)
	})
	return explain(err)
}

// row runs a statement that returns one row, and says when it was sent.
func (d *database) row(ctx context.Context, sql string, args []any, dest ...any) (sent time.Time, err error) {
	err = d.with(ctx, func(c *pgx.Conn, mode []any) error {
		sent = time.Now()
		return c.QueryRow(ctx, sql, slices.Concat(mode, args)...).Scan(dest...)
	})
	return sent, err
}

// exec runs a statement that returns no row, and says how many it has changed.
func (d *database) exec(ctx context.Context, sql string, args []any) (n int64, err error) {
	err = d.with(ctx, func(c *pgx.Conn, mode []any) error {
		tag, err := c.Exec(ctx, sql, slices.Concat(mode, args)...)
		n = tag.RowsAffected()
		return err
	})
	return n, err
}

// mode is the first argument of a statement. Behind a pooler a prepared statement
// may be on another session when it is run, or its name be taken there.
func (d *database) mode(ctx context.Context, c *pgx.Conn) ([]any, error) {
	if d.path.Load() == unseen {
		if _, err := d.look(ctx, c); err != nil {
			return nil, err
		}
	}
	if d.path.Load() == pooler {
		return []any{pgx.QueryExecModeExec}, nil
	}
	return nil, nil
}

// look finds out, and notes, whether a pooler stands between c and the server.
func (d *database) look(ctx context.Context, c *pgx.Conn) (bool, error) {
	between, err := pooled(ctx, c)
	switch {
	case err != nil:
		return false, err
	case between:
		d.path.Store(pooler)
	default:
		d.path.CompareAndSwap(unseen, direct)
	}
	return between, nil
}

// pooled reports whether a pooler stands between c and the server: then the
// process that c was told of when it connected is not the one that answers.
func pooled(ctx context.Context, c *pgx.Conn) (bool, error) {
	var pid uint32
	err := c.QueryRow(ctx, "SELECT pg_backend_pid()::bigint", pgx.QueryExecModeExec).Scan(&pid)
	return pid != c.PgConn().PID(), err
}

// dial opens a connection of our own as the pool would; adjust sets what is
// different about it.
func (d *database) dial(ctx context.Context, adjust func(*pgx.ConnConfig)) (*pgx.Conn, error) {
	config := d.pool.Config()
	cc := config.ConnConfig
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, cc); err != nil {
			return nil, err
		}
	}
	if cc.RuntimeParams["application_name"] == "" {
		cc.RuntimeParams["application_name"] = "fencelock"
	}
	if adjust != nil {
		adjust(cc)
	}
	c, err := pgx.ConnectConfig(ctx, cc)
	if err == nil && config.AfterConnect != nil {
		if err = config.AfterConnect(ctx, c); err != nil {
			_ = c.Close(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// The errors of the server that mean something here.
const (
	serializationFailure = "40001"
	deadlock             = "40P01"
	undefinedTable       = "42P01"
	undefinedColumn      = "42703"
	invalidSchema        = "3F000"
	readOnly             = "25006"
	outOfRange           = "22003"
)

func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// isAgain reports whether the server has undone a statement that collided with
// others and may succeed now. Row locks collide like this under REPEATABLE READ.
func isAgain(err error) bool {
	c := code(err)
	return c == serializationFailure || c == deadlock
}

// refused reports whether err left nothing at the server: it was reported by a
// server that goes on, or nothing was sent.
func refused(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.SeverityUnlocalized == "ERROR" || pgconn.SafeToRetry(err)
}

// definite marks an error of one statement outside a transaction.
func definite(err error) error {
	if err != nil && refused(err) {
		return lease.Definite(err)
	}
	return err
}

// explain adds what to do to errors that people can do something about.
func explain(err error) error {
	advice := ""
	switch code(err) {
	case undefinedTable, undefinedColumn, invalidSchema:
		advice = "the tables of fencelock are missing here: call pg.Migrate, or run pg/schema.sql (pg.DDL for other names)"
	case readOnly:
		advice = "this server or session is read-only: connect to the primary (target_session_attrs=read-write)"
	default:
		return err
	}
	return fmt.Errorf("%s: %w", advice, err)
}
