package pg_test

import (
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/locktest"
	"github.com/fencelock/fencelock/pg"
)

func init() {
	styles["advisory"] = pg.NewAdvisory
	styles["row"] = pg.NewRow
}

// sessionStyles are the styles whose holds are sessions.
var sessionStyles = []string{"advisory", "row"}

func TestConformanceAdvisory(t *testing.T) { sessionConformance(t, "advisory") }
func TestConformanceRow(t *testing.T)      { sessionConformance(t, "row") }

func sessionConformance(t *testing.T, style string) {
	server := testserver.StartPostgres(t, "max_connections=1500")
	migrate(t, server)
	b := suite(server, style, server.Addr(), server.URL())
	b.FixedTTL, b.Session = true, true
	b.Residue = func(testing.TB) []string { return sessionResidue(server) }
	b.Delete = func(t testing.TB, name string) { terminate(t, server, style, "fencelock/"+name) }
	b.Stick = func(t testing.TB, name string) func() { return stop(t, server, style, "fencelock/"+name) }
	locktest.Run(t, b)
}

// sessionResidue lists connections of our own and advisory locks.
func sessionResidue(server *testserver.Postgres) []string {
	left := server.Strings(`SELECT application_name || ' ' || pid || ' ' || state || ': ' || query FROM pg_stat_activity
		WHERE application_name LIKE 'fencelock%' AND datname = current_database()`)
	return append(left, server.Strings(`SELECT 'advisory lock of process ' || pid FROM pg_locks
		WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)...)
}

// holder returns the process that holds key.
func holder(t testing.TB, server *testserver.Postgres, style, key string) int {
	t.Helper()
	sql := map[string]string{
		"advisory": `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted
			AND (classid::bigint << 32) | objid::bigint = ('x' || encode(substr($1::bytea, 1, 8), 'hex'))::bit(64)::bigint`,
		"row": `SELECT pid FROM pg_locks JOIN fencelock_rows ON transactionid = xmax
			WHERE key = $1 AND locktype = 'transactionid' AND granted`,
	}[style]
	pids := server.Strings(sql, keyOf(key))
	require.Len(t, pids, 1)
	pid, err := strconv.Atoi(pids[0])
	require.NoError(t, err)
	return pid
}

// terminate ends the session that holds key.
func terminate(t testing.TB, server *testserver.Postgres, style, key string) {
	t.Helper()
	pid := holder(t, server, style, key)
	server.Exec("SELECT pg_terminate_backend($1)", pid)
	eventually(t, func() bool {
		return len(server.Strings("SELECT FROM pg_stat_activity WHERE pid = $1", pid)) == 0
	}, "the process ends")
}

// stop stops the process that holds key.
func stop(t testing.TB, server *testserver.Postgres, style, key string) (release func()) {
	t.Helper()
	pid := holder(t, server, style, key)
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	return func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
}
