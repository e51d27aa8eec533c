package mysql_test

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/sqlkit"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/locktest"
)

func TestLeaseConformance(t *testing.T) {
	locktest.Run(t, leases(t, func(*driver.Config) {}))
}

// S17: what is meant does not depend on what affected rows count.
func TestLeaseConformanceWithFoundRows(t *testing.T) {
	locktest.Run(t, leases(t, otherSettings))
}

func TestAdvisoryConformance(t *testing.T) {
	locktest.Run(t, sessions(t, "advisory", otherSettings))
}

func TestRowConformance(t *testing.T) {
	locktest.Run(t, sessions(t, "row", func(*driver.Config) {}))
}

func otherSettings(c *driver.Config) {
	c.ClientFoundRows, c.InterpolateParams, c.ParseTime = true, true, true
}

func leases(t *testing.T, set func(*driver.Config)) locktest.Backend {
	return leasesAt(backend(t, "lease", set))
}

func leasesAt(b locktest.Backend, server *testserver.MariaDB) locktest.Backend {
	b.Delete = func(_ testing.TB, name string) {
		server.Exec("DELETE FROM fencelock_locks WHERE lock_key = " + keyOf(name))
	}
	b.Residue = func(testing.TB) []string {
		return server.Strings("SELECT CONCAT(name, ' is held') FROM fencelock_locks WHERE owner IS NOT NULL AND expires_at > " + now)
	}
	b.Commands = func(testing.TB) (n int) {
		for _, s := range server.Strings("SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME IN ('COM_INSERT', 'COM_UPDATE')") {
			i, _ := strconv.Atoi(s)
			n += i
		}
		return n
	}
	b.Stick = func(t testing.TB, name string) func() {
		tx, err := dial(t, server.DSN()).Begin()
		if err == nil {
			_, err = tx.Exec("SELECT 1 FROM fencelock_locks WHERE lock_key = " + keyOf(name) + " FOR UPDATE")
		}
		if err != nil {
			t.Fatal(err)
		}
		return func() { _ = tx.Rollback() }
	}
	return b
}

func sessions(t *testing.T, style string, set func(*driver.Config)) locktest.Backend {
	b, server := backend(t, style, set)
	return sessionsAt(b, server, style)
}

func sessionsAt(b locktest.Backend, server *testserver.MariaDB, style string) locktest.Backend {
	b.FixedTTL, b.Session, b.TTL = true, true, 2*time.Second // in whole seconds; renewed by a ping
	b.Delete = func(t testing.TB, name string) { kill(t, server, holderOf(t, server, style, name)) }
	b.Residue = func(testing.TB) []string {
		return server.Strings("SELECT CONCAT('session ', THREAD_ID, ' has ', TABLE_SCHEMA) FROM information_schema.METADATA_LOCK_INFO WHERE LOCK_TYPE = 'User lock'")
	}
	return b
}

// holderOf returns the thread that holds name.
func holderOf(t testing.TB, server *testserver.MariaDB, style, name string) string {
	t.Helper()
	if style == "advisory" {
		return server.Strings("SELECT IS_USED_LOCK(?)", sqlkit.KeyOf("fencelock/"+name).Hex())[0]
	}
	key := sqlkit.KeyOf("fencelock/" + name).Hex()[:60] // the status shows 30 bytes
	holder := ""
	eventually(t, func() bool {
		for _, trx := range strings.Split(server.Strings("SHOW ENGINE INNODB STATUS")[0], "---TRANSACTION ") {
			if id := threadID.FindStringSubmatch(trx); id != nil && strings.Contains(trx, "`fencelock_rows`") &&
				strings.Contains(trx, key) && !strings.Contains(trx, "LOCK WAIT") {
				holder = id[1]
			}
		}
		return holder != ""
	}, "somebody holds the row")
	return holder
}

var threadID = regexp.MustCompile(`thread id (\d+)`)

// kill ends a thread and waits until it is gone.
func kill(t testing.TB, server *testserver.MariaDB, thread string) {
	t.Helper()
	_, _ = server.Try("KILL CONNECTION " + thread)
	eventually(t, func() bool {
		return len(server.Strings("SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = ?", thread)) == 0
	}, "the thread ends")
}

// backend is one style on a server of its own.
func backend(t *testing.T, style string, set func(*driver.Config)) (locktest.Backend, *testserver.MariaDB) {
	server := testserver.StartMariaDB(t, "--max-connections=3000", "--log-warnings=0", "--plugin-load-add=metadata_lock_info", "--innodb-status-output-locks=ON")
	migrate(t, server)
	unmigrated := server.NewDatabase(t)
	open := func(t testing.TB, dsn string, opts []fencelock.Option) locktest.Locker {
		l, err := styles[style](dial(t, dsn, set), opts...)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	return locktest.Backend{
		New: func(t testing.TB, opts ...fencelock.Option) locktest.Locker { return open(t, server.DSN(), opts) },
		Via: func(t testing.TB, opts ...fencelock.Option) (locktest.Locker, locktest.Link) {
			p := testserver.NewProxy(t, server.Addr())
			return open(t, server.Via(p.Addr()), opts), testserver.Link{Proxy: p}
		},
		Refused: func(t testing.TB, opts ...fencelock.Option) locktest.Locker {
			p := testserver.NewProxy(t, server.Addr())
			p.Cut()
			return open(t, server.Via(p.Addr()), opts)
		},
		Broken: func(t testing.TB, opts ...fencelock.Option) locktest.Locker {
			return open(t, unmigrated.DSN(), opts)
		},
		TTL:    3 * time.Second,
		Worker: func(testing.TB) *exec.Cmd { return locktest.Self(dsnEnv+"="+server.DSN(), styleEnv+"="+style) },
	}, server
}

const now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

// keyOf is the documented key of a lock with the default prefix.
func keyOf(name string) string { return "x'" + sqlkit.KeyOf("fencelock/"+name).Hex() + "'" }
