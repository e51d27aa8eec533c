package mysql

import (
	"context"
	"database/sql"
	"time"

	"github.com/fencelock/fencelock/internal/sqlkit"
)

// runner runs statements. They carry their values as literals: with arguments,
// go-sql-driver prepares, executes and closes, which is two round trips.
type runner interface {
	// exec returns what the statement gave to LAST_INSERT_ID(…), 0 if that was
	// not evaluated. Affected rows say nothing: clientFoundRows changes what they
	// count.
	exec(ctx context.Context, text string) (word uint64, err error)
	// row scans the only row of the result.
	row(ctx context.Context, text string, dest ...any) error
}

// querier is a *sql.DB, *sql.Conn or *sql.Tx.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func exec(ctx context.Context, q querier, text string) (uint64, error) {
	res, err := q.ExecContext(ctx, text)
	if err != nil {
		return 0, failure(ctx, err)
	}
	id, err := res.LastInsertId()
	return uint64(id), err
}

func row(ctx context.Context, q querier, text string, dest ...any) error {
	return failure(ctx, q.QueryRowContext(ctx, text).Scan(dest...))
}

// failure is what a caller is told: ctx's error if it has ended. A dialer that
// has ctx's deadline may notice before ctx does.
func failure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return explain(err)
}

// pool runs statements that commit by themselves, on any connection.
type pool struct{ db *sql.DB }

func (p pool) exec(ctx context.Context, text string) (word uint64, err error) {
	err = sqlkit.Retry(ctx, again, func() error {
		word, err = exec(ctx, p.db, text)
		return err
	})
	return word, err
}

func (p pool) row(ctx context.Context, text string, dest ...any) error {
	return sqlkit.Retry(ctx, again, func() error {
		return row(ctx, p.db, text, dest...)
	})
}

// inTx runs statements in the caller's transaction. Nothing is tried again
// there: a deadlock has rolled all of it back.
type inTx struct{ tx *sql.Tx }

func (t inTx) exec(ctx context.Context, text string) (uint64, error) { return exec(ctx, t.tx, text) }

func (t inTx) row(ctx context.Context, text string, dest ...any) error {
	return row(ctx, t.tx, text, dest...)
}
