package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

var errTransactionPooling = errors.New("the pool connects through a pooler, such as PgBouncer, that gives each transaction " +
	"another session of the server, and this kind of lock needs one that stays: use NewLease or TxLock, " +
	"connect to the server itself, or set pool_mode=session")

// pooledBySession returns the process that serves c, which is connected to a
// pooler, as long as c is open. A pooler that assigns processes to transactions
// shows when another connection sits in one: it has got c's process, or c gets
// another.
func (d *database) pooledBySession(ctx context.Context, c *pgx.Conn) (int64, error) {
	before, err := backend(ctx, c)
	if err != nil {
		return 0, err
	}
	other, err := d.dial(ctx, nil)
	if err != nil {
		return 0, fmt.Errorf("the pool connects through a pooler, and a second connection that shows how it pools failed: %w", err)
	}
	defer other.Close(ctx) // ends its transaction
	if _, err := other.Exec(ctx, "BEGIN", pgx.QueryExecModeExec); err != nil {
		return 0, err
	}
	its, err := backend(ctx, other)
	if err != nil {
		return 0, err
	}
	if its != before {
		after, err := backend(ctx, c)
		if err != nil {
			return 0, err
		}
		if after == before {
			return before, nil
		}
	}
	return 0, errTransactionPooling
}

// backend asks which process of the server runs this statement.
func backend(ctx context.Context, c *pgx.Conn) (pid int64, err error) {
	err = c.QueryRow(ctx, "SELECT pg_backend_pid()::bigint", pgx.QueryExecModeExec).Scan(&pid)
	return pid, err
}
