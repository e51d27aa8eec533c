package mysql_test

import (
	"os/exec"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/sqlkit"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/locktest"
)

func TestLeaseConformance(t *testing.T) {
	locktest.Run(t, backend(t, "lease", func(*driver.Config) {}))
}

// S17: what is meant does not depend on what affected rows count.
func TestLeaseConformanceWithFoundRows(t *testing.T) {
	locktest.Run(t, backend(t, "lease", func(c *driver.Config) {
		c.ClientFoundRows, c.InterpolateParams, c.ParseTime = true, true, true
	}))
}

// backend is one style on a server of its own.
func backend(t *testing.T, style string, set func(*driver.Config)) locktest.Backend {
	server := testserver.StartMariaDB(t, "--max-connections=3000", "--log-warnings=0")
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
			return open(t, server.Via(p.Addr()), opts), link{p}
		},
		Refused: func(t testing.TB, opts ...fencelock.Option) locktest.Locker {
			p := testserver.NewProxy(t, server.Addr())
			p.Cut()
			return open(t, server.Via(p.Addr()), opts)
		},
		Broken: func(t testing.TB, opts ...fencelock.Option) locktest.Locker {
			return open(t, unmigrated.DSN(), opts)
		},
		Delete: func(_ testing.TB, name string) {
			server.Exec("DELETE FROM fencelock_locks WHERE lock_key = " + keyOf(name))
		},
		Residue: func(testing.TB) []string {
			return server.Strings("SELECT CONCAT(name, ' is held') FROM fencelock_locks WHERE owner IS NOT NULL AND expires_at > " + now)
		},
		Stick: func(t testing.TB, name string) func() {
			tx, err := dial(t, server.DSN()).Begin()
			if err == nil {
				_, err = tx.Exec("UPDATE fencelock_locks SET name = name WHERE lock_key = " + keyOf(name))
			}
			if err == nil {
				_, err = tx.Exec("SELECT 1 FROM fencelock_locks WHERE lock_key = " + keyOf(name) + " FOR UPDATE")
			}
			if err != nil {
				t.Fatal(err)
			}
			return func() { _ = tx.Rollback() }
		},
		TTL:    2 * time.Second,
		Worker: func(testing.TB) *exec.Cmd { return locktest.Self(dsnEnv+"="+server.DSN(), styleEnv+"="+style) },
	}
}

const now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

// keyOf is the documented key of a lock with the default prefix.
func keyOf(name string) string { return "x'" + sqlkit.KeyOf("fencelock/"+name).Hex() + "'" }

type link struct{ *testserver.Proxy }

func (l link) Delay(d time.Duration)  { l.Proxy.Delay(testserver.ToClient, d, 0) }
func (l link) Jitter(m time.Duration) { l.Proxy.Delay(testserver.Both, 0, m) }
func (l link) BlackHole()             { l.Drop(testserver.Both) }
func (l link) Freeze()                { l.Proxy.Freeze(testserver.Both) }
func (l link) Heal() {
	l.Proxy.Heal()
	l.Proxy.Delay(testserver.Both, 0, 0)
}
