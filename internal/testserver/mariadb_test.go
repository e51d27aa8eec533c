package testserver

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSharedMariaDBIsOneServerWithManyDatabases(t *testing.T) {
	a, b := SharedMariaDB(t), SharedMariaDB(t)
	require.Equal(t, a.DSN(), b.DSN())
	var name []string
	t.Run("one test", func(t *testing.T) {
		db := SharedMariaDB(t).NewDatabase(t)
		db.Exec("CREATE TABLE only_here (i int)")
		name = db.Strings("SELECT database()")
		_, err := SharedMariaDB(t).NewDatabase(t).Try("SELECT * FROM only_here")
		require.ErrorContains(t, err, "doesn't exist")
	})
	require.Len(t, name, 1)
	require.Empty(t, a.Strings("SHOW DATABASES LIKE '"+name[0]+"'"))

	rec := record(t, func(tb testing.TB) { SharedMariaDB(tb).Pause() })
	require.Contains(t, rec.fatal, "use StartMariaDB")
}

func TestSharedMariaDBFromTheEnvironment(t *testing.T) {
	own := StartMariaDB(t)
	t.Setenv(MySQLEnv, own.admin.FormatDSN())
	require.Equal(t, own.Addr(), SharedMariaDB(t).Addr())
	require.NotEqual(t, []string{"fencelock"}, SharedMariaDB(t).NewDatabase(t).Strings("SELECT database()"))
	t.Setenv(MySQLEnv, "root@tcp(127.0.0.1:1)/none")
	require.Contains(t, record(t, func(tb testing.TB) { SharedMariaDB(tb) }).fatal, MySQLEnv)
}

func TestMariaDBClientsAreOrdinaryUsers(t *testing.T) {
	s := StartMariaDB(t, "--read-only")
	db := openMariaDB(t, s.NewDatabase(t).DSN())
	_, err := db.ExecContext(t.Context(), "CREATE TABLE t (i int)")
	require.ErrorContains(t, err, "read-only", "only root may write here")
	s.Exec("SET GLOBAL read_only = OFF")
	_, err = db.ExecContext(t.Context(), "CREATE TABLE t (i int)")
	require.NoError(t, err)
}

func TestMariaDBHelpersReadAndWriteText(t *testing.T) {
	db := SharedMariaDB(t).NewDatabase(t)
	db.Exec("CREATE TABLE t (i bigint, b varbinary(9), s text)")
	db.Exec("INSERT INTO t VALUES (1, '', 'x'), (?, ?, ?)", 2, []byte{0, 0xff}, nil)
	require.Equal(t, []string{"1||x", "2|00FF|"}, db.Strings("SELECT i, hex(b), s FROM t ORDER BY i"))
	_, err := db.Try("nonsense")
	require.ErrorContains(t, err, "SQL syntax")
}

func TestKilledMariaDBKeepsWhatWasCommitted(t *testing.T) {
	s := StartMariaDB(t, "--innodb-flush-log-at-trx-commit=1")
	require.Equal(t, []string{"1|300"}, s.Strings("SELECT @@innodb_flush_log_at_trx_commit, @@max_connections"))
	s.Exec("CREATE TABLE t (i int)")
	s.Exec("INSERT INTO t VALUES (1)")
	tx, err := openMariaDB(t, s.DSN()).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "INSERT INTO t VALUES (2)")
	require.NoError(t, err)

	s.Kill()
	require.False(t, s.Alive())
	_, err = s.Try("SELECT 1")
	require.Error(t, err)
	s.Restart()
	require.True(t, s.Alive())
	require.Equal(t, []string{"1"}, s.Strings("SELECT i FROM t"))
}

func TestPausedMariaDBAnswersNobodyUntilResume(t *testing.T) {
	s := StartMariaDB(t)
	c, err := openMariaDB(t, s.DSN()).Conn(t.Context())
	require.NoError(t, err)
	defer c.Close()
	s.Pause()
	answers := make(chan error, 2)
	go func() { answers <- c.PingContext(context.Background()) }()
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

func openMariaDB(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}
