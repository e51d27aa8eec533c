package testserver

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestPgBouncerPoolsByTransaction(t *testing.T) {
	db := SharedPostgres(t).NewDatabase(t)
	b := PgBouncer(t, db, "default_pool_size=2")
	name := db.Strings("SELECT current_database()")[0]

	one, other := connectPostgres(t, b.URL()), connectPostgres(t, b.URL())
	first := backend(t, one)
	_, err := other.Exec(t.Context(), "BEGIN")
	require.NoError(t, err)
	require.Equal(t, first, backend(t, other), "both shared one session, which the transaction now keeps")
	require.NotEqual(t, first, backend(t, one))
	require.True(t, strings.HasSuffix(poolOf(b, name), "|transaction"), poolOf(b, name))
}

func TestPgBouncerCanPoolBySession(t *testing.T) {
	db := SharedPostgres(t).NewDatabase(t)
	b := PgBouncer(t, db, "pool_mode=session")
	one, other := connectPostgres(t, b.URL()), connectPostgres(t, b.URL())
	first := backend(t, one)
	require.NotEqual(t, first, backend(t, other))
	require.Equal(t, first, backend(t, one))
}

func TestPgBouncerCanBeKilledAndPaused(t *testing.T) {
	b := PgBouncer(t, SharedPostgres(t))
	c := connectPostgres(t, b.URL())
	b.Kill()
	_, err := pgx.Connect(t.Context(), b.URL())
	require.Error(t, err)
	require.Error(t, c.Ping(t.Context()))
	b.Restart()
	c = connectPostgres(t, b.URL())
	b.Pause()
	answer := make(chan error, 1)
	go func() { answer <- c.Ping(t.Context()) }()
	select {
	case err := <-answer:
		t.Fatalf("a paused pooler answered: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	b.Resume()
	require.NoError(t, <-answer)
}

// backend returns the process id of the server's session, asked by the simple protocol: a prepared statement would not be
// known to another session.
func backend(t *testing.T, c *pgx.Conn) (pid int) {
	t.Helper()
	require.NoError(t, c.QueryRow(t.Context(), "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid))
	return pid
}

func poolOf(b *Bouncer, database string) string {
	for _, row := range b.Console("SHOW POOLS") {
		if strings.HasPrefix(row, database+"|") {
			return row
		}
	}
	return ""
}
