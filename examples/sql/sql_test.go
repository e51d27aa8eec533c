package sql

import (
	"database/sql"
	"testing"

	_ "github.com/go-sql-driver/mysql"
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

	require.NoError(t, renameInvoice(ctx, pool, "a", "first", 10))
	require.NoError(t, renameInvoice(ctx, pool, "a", "second", 11))
	require.ErrorIs(t, renameInvoice(ctx, pool, "a", "late", 10), fencelock.ErrStale)
	require.ErrorIs(t, renameInvoice(ctx, pool, "none", "", 11), pg.ErrNoRow)
	require.Equal(t, []string{"second|11"}, db.Strings("SELECT title, fence_token FROM invoices WHERE id = 'a'"))

	var add []func() error
	for range 20 {
		add = append(add, func() error { return addToInvoice(ctx, pool, "b", 1) })
	}
	all(t, add)
	require.Equal(t, []string{"20|t"}, db.Strings("SELECT total, version > 0 FROM invoices WHERE id = 'b'"))
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

	var add []func() error
	for range 20 {
		add = append(add, func() error { return addToInvoiceMySQL(ctx, db, "b", 1) })
	}
	all(t, add)
	require.Equal(t, []string{"20|1"}, server.Strings("SELECT total, version > 0 FROM invoices WHERE id = 'b'"))
}

// all runs some functions at the same time.
func all(t *testing.T, fs []func() error) {
	t.Helper()
	errs := make(chan error, len(fs))
	for _, f := range fs {
		go func() { errs <- f() }()
	}
	for range fs {
		require.NoError(t, <-errs)
	}
}
