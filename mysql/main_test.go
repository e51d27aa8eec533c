package mysql_test

import (
	"database/sql"
	"os"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/locktest"
	"github.com/fencelock/fencelock/mysql"
)

// These tell a worker process where the server is, and which style to use.
const (
	dsnEnv   = "FENCELOCK_MYSQL_TEST_DSN"
	styleEnv = "FENCELOCK_MYSQL_TEST_STYLE"
)

// constructor makes a Locker of one style.
type constructor = func(db *sql.DB, opts ...fencelock.Option) (*mysql.Locker, error)

var styles = map[string]constructor{"lease": mysql.NewLease, "advisory": mysql.NewAdvisory, "row": mysql.NewRow}

func TestMain(m *testing.M) {
	_ = driver.SetLogger(&driver.NopLogger{}) // connections are cut on purpose
	locktest.Work(func(opts ...fencelock.Option) (locktest.Locker, error) {
		db, err := sql.Open("mysql", os.Getenv(dsnEnv))
		if err != nil {
			return nil, err
		}
		return styles[os.Getenv(styleEnv)](db, opts...)
	})
	testserver.RegisterWorker("contend", contend)
	testserver.Main(m)
}

// dial returns a pool that ends with the test.
func dial(t testing.TB, dsn string, set ...func(*driver.Config)) *sql.DB {
	t.Helper()
	c, err := driver.ParseDSN(dsn)
	require.NoError(t, err)
	for _, f := range set {
		f(c)
	}
	connector, err := driver.NewConnector(c)
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(20) // else the tests of contention open a connection for each statement
	db.SetConnMaxIdleTime(time.Second)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// database returns a database of the test's own on the shared server, with the
// tables.
func database(t testing.TB) *testserver.MariaDB {
	t.Helper()
	s := testserver.SharedMariaDB(t).NewDatabase(t)
	migrate(t, s)
	return s
}

func migrate(t testing.TB, s *testserver.MariaDB) {
	t.Helper()
	require.NoError(t, mysql.Migrate(t.Context(), dial(t, s.DSN())))
}
