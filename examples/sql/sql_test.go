package sql

import (
	"context"
	"database/sql"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/mysql"
	"github.com/fencelock/fencelock/pg"
)

const invoices = `CREATE TABLE invoices (
	id          varchar(99) PRIMARY KEY,
	title       varchar(99) NOT NULL DEFAULT '',
	total       bigint NOT NULL DEFAULT 0,
	paid        bigint NOT NULL DEFAULT 0,
	version     bigint NOT NULL DEFAULT 0,
	fence_token bigint NOT NULL DEFAULT 0
)`

func TestPostgresExamplesDoWhatThePageSays(t *testing.T) {
	ctx, db := t.Context(), testserver.SharedPostgres(t).NewDatabase(t)
	pool, err := pgxpool.New(ctx, db.URL())
	require.NoError(t, err)
	defer pool.Close()
	require.NoError(t, pg.Migrate(ctx, pool))
	locker, err := pg.NewLease(pool)
	require.NoError(t, err)
	defer locker.Close(ctx)
	db.Exec(invoices + "; GRANT ALL ON invoices TO fencelock; INSERT INTO invoices (id, total) VALUES ('a', 5), ('b', 0)")

	require.NoError(t, payInvoice(ctx, pool, locker, "a"))
	require.Equal(t, []string{"5"}, db.Strings("SELECT paid FROM invoices WHERE id = 'a'"))

	require.NoError(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		fence, err := pg.NewFence(tx)
		require.NoError(t, err)
		return fence.Admit(ctx, "b", later())
	}))
	require.ErrorIs(t, payInvoice(ctx, pool, locker, "b"), fencelock.ErrStale)

	require.NoError(t, renameInvoice(ctx, pool, "a", "first", 10))
	require.NoError(t, renameInvoice(ctx, pool, "a", "second", 11))
	require.ErrorIs(t, renameInvoice(ctx, pool, "a", "late", 10), fencelock.ErrStale)
	require.ErrorIs(t, renameInvoice(ctx, pool, "none", "", 11), pg.ErrNoRow)
	require.Equal(t, []string{"second|11"}, db.Strings("SELECT title, fence_token FROM invoices WHERE id = 'a'"))

	tx, err := pool.Begin(ctx)
	require.NoError(t, err)
	defer tx.Rollback(context.Background())
	_, err = pg.TxLock(ctx, tx, "b")
	require.NoError(t, err)
	_, err = tx.Exec(ctx, "UPDATE invoices SET total = 100 WHERE id = 'b'")
	require.NoError(t, err)
	added := make(chan error, 1)
	go func() { added <- addToInvoice(ctx, pool, "b", 1) }()
	await(t, func() bool {
		return len(db.Strings("SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")) == 1
	})
	require.NoError(t, tx.Commit(ctx))
	require.NoError(t, <-added)
	require.Equal(t, []string{"101|t"}, db.Strings("SELECT total, version > 0 FROM invoices WHERE id = 'b'"), "it has read what was written before")
}

func TestMySQLExamplesDoWhatThePageSays(t *testing.T) {
	ctx, server := t.Context(), testserver.SharedMariaDB(t).NewDatabase(t)
	db, err := sql.Open("mysql", server.DSN())
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, mysql.Migrate(ctx, db))
	locker, err := mysql.NewLease(db)
	require.NoError(t, err)
	defer locker.Close(ctx)
	server.Exec(invoices)
	server.Exec("INSERT INTO invoices (id, total) VALUES ('a', 5), ('b', 0)")

	require.NoError(t, payInvoiceMySQL(ctx, db, locker, "a"))
	require.Equal(t, []string{"5"}, server.Strings("SELECT paid FROM invoices WHERE id = 'a'"))
	tx, err := db.BeginTx(ctx, nil)
	require.NoError(t, err)
	fence, err := mysql.NewFence(tx)
	require.NoError(t, err)
	require.NoError(t, fence.Admit(ctx, "b", later()))
	require.NoError(t, tx.Commit())
	require.ErrorIs(t, payInvoiceMySQL(ctx, db, locker, "b"), fencelock.ErrStale)

	tx, err = db.BeginTx(ctx, nil)
	require.NoError(t, err)
	defer tx.Rollback()
	_, err = mysql.TxLock(ctx, tx, "b")
	require.NoError(t, err)
	_, err = tx.ExecContext(ctx, "UPDATE invoices SET total = 100 WHERE id = 'b'")
	require.NoError(t, err)
	added := make(chan error, 1)
	go func() { added <- addToInvoiceMySQL(ctx, db, "b", 1) }()
	await(t, func() bool {
		return server.Strings("SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'")[0] == "1"
	})
	require.NoError(t, tx.Commit())
	require.NoError(t, <-added)
	require.Equal(t, []string{"101|1"}, server.Strings("SELECT total, version > 0 FROM invoices WHERE id = 'b'"), "it has read what was written before")
}

// later is a token above those of the next hour.
func later() fencelock.Token { return fencelock.Token(time.Now().Add(time.Hour).UnixMicro()) }

func await(t *testing.T, done func() bool) {
	t.Helper()
	require.Eventually(t, done, time.Minute, 5*time.Millisecond)
}
