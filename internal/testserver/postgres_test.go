package testserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestSharedPostgresIsOneServerWithManyDatabases(t *testing.T) {
	a, b := SharedPostgres(t), SharedPostgres(t)
	require.Equal(t, a.URL(), b.URL())
	var name []string
	outer := t
	t.Run("one test", func(t *testing.T) {
		db := SharedPostgres(t).NewDatabase(t)
		db.Exec("CREATE TABLE only_here (i int)")
		name = db.Strings("SELECT current_database()")
		require.Equal(t, name, a.Strings("SELECT datname FROM pg_database WHERE datname = $1", name[0]))
		_, err := SharedPostgres(t).NewDatabase(t).Try("SELECT FROM only_here")
		require.ErrorContains(t, err, "does not exist")
		connectPostgres(outer, db.URL()) // stays connected for longer than the test
	})
	require.Empty(t, a.Strings("SELECT FROM pg_database WHERE datname = $1", name[0]))

	rec := record(t, func(tb testing.TB) { SharedPostgres(tb).NewDatabase(t).Pause() })
	require.Contains(t, rec.fatal, "use StartPostgres")
}

func TestSharedPostgresFromTheEnvironment(t *testing.T) {
	own := StartPostgres(t)
	t.Setenv(PostgresEnv, own.admin.String())
	require.Equal(t, own.Addr(), SharedPostgres(t).Addr())
	db := SharedPostgres(t).NewDatabase(t)
	require.NotEqual(t, []string{"fencelock"}, db.Strings("SELECT current_database()"))
	require.Contains(t, record(t, func(tb testing.TB) { SharedPostgres(tb).Kill() }).fatal, PostgresEnv)
	t.Setenv(PostgresEnv, "postgres://nobody@127.0.0.1:1/none")
	require.Contains(t, record(t, func(tb testing.TB) { SharedPostgres(tb) }).fatal, PostgresEnv)
}

func TestPostgresClientsAreOrdinaryUsers(t *testing.T) {
	db := SharedPostgres(t).NewDatabase(t)
	c := connectPostgres(t, db.URL())
	var super bool
	require.NoError(t, c.QueryRow(t.Context(), "SELECT rolsuper FROM pg_roles WHERE rolname = current_user").Scan(&super))
	require.False(t, super)
	_, err := c.Exec(t.Context(), "CREATE SCHEMA s; CREATE TABLE s.t (i int); CREATE TABLE t (i int)")
	require.NoError(t, err, "but they own the database")
}

func TestPostgresHelpersReadAndWriteText(t *testing.T) {
	db := SharedPostgres(t).NewDatabase(t)
	db.Exec("CREATE TABLE t (i bigint, b bytea, s text); INSERT INTO t VALUES (1, '', 'x')")
	db.Exec("INSERT INTO t VALUES ($1, $2, $3)", 2, []byte{0, 0xff}, nil)
	require.Equal(t, []string{`1|\x|x`, `2|\x00ff|`}, db.Strings("SELECT * FROM t ORDER BY i"))
	_, err := db.Try("SELECT 1/$1::int", 0)
	require.ErrorContains(t, err, "division by zero")
	require.Contains(t, record(t, func(tb testing.TB) { SharedPostgres(tb).Exec("nonsense") }).fatal, "nonsense")
}

func TestPostgresSettingsWin(t *testing.T) {
	s := StartPostgres(t, "max_connections=20", "fsync=on")
	require.Equal(t, []string{"20"}, s.Strings("SHOW max_connections"))
	require.Equal(t, []string{"on"}, s.Strings("SHOW fsync"))
	require.Equal(t, []string{"off"}, SharedPostgres(t).Strings("SHOW fsync"))
}

func TestPausedPostgresAnswersNobodyUntilResume(t *testing.T) {
	s := StartPostgres(t)
	c := connectPostgres(t, s.URL()) // has a process of its own
	s.Pause()
	s.Pause()
	answers := make(chan error, 2)
	go func() { _, err := c.Exec(context.Background(), "SELECT 1"); answers <- err }()
	go func() { _, err := s.Try("SELECT 1"); answers <- err }()
	select {
	case err := <-answers:
		t.Fatalf("a paused server answered: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	s.Resume()
	require.NoError(t, <-answers)
	require.NoError(t, <-answers)
}

func TestKilledPostgresKeepsWhatWasCommitted(t *testing.T) {
	for _, paused := range []bool{false, true} {
		t.Run(fmt.Sprint("paused ", paused), func(t *testing.T) {
			s := StartPostgres(t, "fsync=on")
			s.Exec("CREATE TABLE t (i int); INSERT INTO t VALUES (1)")
			c := connectPostgres(t, s.URL())
			tx, err := connectPostgres(t, s.admin.String()).Begin(t.Context())
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), "INSERT INTO t VALUES (2)")
			require.NoError(t, err)
			// A busy process does not see for itself that its parent is gone.
			go func() { _, _ = c.Exec(context.Background(), "SELECT count(*) FROM generate_series(1, 1e12::bigint)") }()
			require.True(t, poll(20*time.Second, func() bool {
				return len(s.Strings("SELECT FROM pg_stat_activity WHERE query LIKE '%generate_series%' AND state = 'active' AND pid <> pg_backend_pid()")) == 1
			}))

			pids := append(children(s.PID()), s.PID())
			require.Greater(t, len(pids), 6)
			data := filepath.Join(s.Dir(), "data")
			memory := strings.Fields(pidFile(data)[6])[1]
			require.True(t, sharedMemory(memory))
			if paused {
				s.Pause()
			}
			s.Kill()
			require.False(t, s.Alive())
			for _, pid := range pids { // some stay for a moment, until somebody has taken note of their end
				require.True(t, poll(20*time.Second, func() bool { return !pidExists(pid) }))
			}
			require.False(t, sharedMemory(memory))
			_, err = s.Try("SELECT 1")
			require.Error(t, err)

			s.Restart()
			require.True(t, s.Alive())
			require.Equal(t, []string{"1"}, s.Strings("SELECT i FROM t"))
			s.Restart()
			require.Equal(t, []string{"1"}, s.Strings("SELECT i FROM t"))
		})
	}
}

func TestPostgresDiesWithItsTestProcess(t *testing.T) {
	for _, how := range []string{"running", "paused"} {
		dir := tempDir(t)
		w := StartWorker(t, "postgres", PostgresProgram(t), dir, how)
		words := strings.Fields(w.Line())
		require.Greater(t, len(words), 4)
		w.Kill()
		for _, word := range words {
			pid, err := strconv.Atoi(word)
			require.NoError(t, err)
			require.True(t, poll(20*time.Second, func() bool { return !pidExists(pid) }), how)
		}
		removeSharedMemory(filepath.Join(dir, "data"))
	}
}

func connectPostgres(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// sharedMemory reports whether the segment with this id exists.
func sharedMemory(id string) bool {
	b, _ := os.ReadFile("/proc/sysvipc/shm")
	for line := range strings.Lines(string(b)) {
		if words := strings.Fields(line); len(words) > 1 && words[1] == id {
			return true
		}
	}
	return false
}
