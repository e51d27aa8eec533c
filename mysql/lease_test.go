package mysql_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/mysql"
)

// S5: a grant that had to wait for the row's lock is not valid for longer than
// the server keeps it, and gets its full TTL by a renewal.
func TestGrantAfterARowLockWaitHasItsTime(t *testing.T) {
	s := database(t)
	db := dial(t, s.DSN())
	const ttl = 3 * time.Second
	l := open(t, mysql.NewLease, db, fencelock.TTL(ttl))
	cycle(t, l, "n")
	tx, err := db.BeginTx(long(t), nil)
	require.NoError(t, err)
	_, err = tx.Exec("SELECT 1 FROM fencelock_locks WHERE lock_key = " + keyOf("n") + " FOR UPDATE")
	require.NoError(t, err)
	time.AfterFunc(ttl/2, func() { _ = tx.Rollback() })
	lock := acquire(t, l, "n")
	valid := lock.Valid()
	left := micros(t, s.Strings("SELECT expires_at - " + now + " FROM fencelock_locks")[0])
	require.LessOrEqual(t, valid, left+50*time.Millisecond)
	eventually(t, func() bool {
		require.NoError(t, lock.Err())
		return lock.Valid() > ttl*3/4
	}, "the full TTL")
	release(t, lock)
}

func micros(t testing.TB, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s + "us")
	require.NoError(t, err)
	return d
}

// S20: whatever the session's time zone is.
func TestTimeZonesDoNotMatter(t *testing.T) {
	s := database(t)
	zone := func(z string) *mysql.Locker {
		db := dial(t, s.DSN(), func(c *driver.Config) { c.Params = map[string]string{"time_zone": "'" + z + "'"} })
		return open(t, mysql.NewLease, db, fencelock.TTL(2*time.Second))
	}
	east, west := zone("+05:30"), zone("-08:00")
	var last fencelock.Token
	for i, l := range []*mysql.Locker{east, west, east} {
		other := []*mysql.Locker{west, east, west}[i]
		lock := acquire(t, l, "n")
		require.Greater(t, lock.Token(), last)
		last = lock.Token()
		_, err := other.TryAcquire(long(t), "n")
		var held *fencelock.HeldError
		require.ErrorAs(t, err, &held)
		require.LessOrEqual(t, held.For, 2*time.Second)
		st, err := other.Status(long(t), "n")
		require.NoError(t, err)
		require.True(t, st.Held)
		require.Equal(t, lock.Token(), st.Token)
		require.LessOrEqual(t, st.For, 2*time.Second)
		require.Greater(t, st.For, time.Duration(0))
		release(t, lock)
	}
	require.InDelta(t, time.Now().UnixMicro(), int64(last), float64(time.Minute/time.Microsecond), "tokens are microseconds since 1970")
}

// The columns may be assigned one after the other or all at once.
func TestSQLModesDoNotMatter(t *testing.T) {
	s := database(t)
	for _, mode := range []string{"SIMULTANEOUS_ASSIGNMENT", "", "ANSI,TRADITIONAL,NO_UNSIGNED_SUBTRACTION,PAD_CHAR_TO_FULL_LENGTH"} {
		db := dial(t, s.DSN(), func(c *driver.Config) { c.Params = map[string]string{"sql_mode": "'" + mode + "'"} })
		for style, make := range styles {
			l, other, name := open(t, make, db), open(t, make, db), style+mode
			var last fencelock.Token
			for range 3 {
				lock := acquire(t, l, name)
				require.Greater(t, lock.Token(), last)
				last = lock.Token()
				_, err := other.TryAcquire(long(t), name)
				require.ErrorIs(t, err, fencelock.ErrHeld)
				st, err := other.Status(long(t), name)
				require.NoError(t, err)
				require.Equal(t, lock.Token(), st.Token)
				release(t, lock)
			}
		}
		require.NoError(t, admitOnce(long(t), db, "f"+mode, 5))
		require.ErrorIs(t, admitOnce(long(t), db, "f"+mode, 4), fencelock.ErrStale)
	}
}

// S18: new names do not deadlock with each other.
func TestManyNewNamesAtOnce(t *testing.T) {
	s := database(t)
	for style, make := range styles {
		db := dial(t, s.DSN())
		db.SetMaxOpenConns(60)
		l := open(t, make, db)
		source := newTokens(t, db)
		var all sync.WaitGroup
		for g := range 50 {
			all.Go(func() {
				for i := range 4 {
					name := fmt.Sprint(style, g, "/", i)
					lock, err := l.Acquire(long(t), name)
					if err != nil {
						t.Errorf("Acquire(%q): %v", name, err)
						return
					}
					if err := lock.Release(long(t)); err != nil {
						t.Errorf("Release of %q: %v", name, err)
					}
					if _, err := source.Next(long(t), name+"t"); err != nil {
						t.Errorf("Next(%q): %v", name, err)
					}
					if err := admitOnce(long(t), db, name, 7); err != nil {
						t.Errorf("Admit(%q): %v", name, err)
					}
				}
			})
		}
		all.Wait()
	}
}

func TestTryAnyTakesAFreeOne(t *testing.T) {
	s := database(t)
	for style, make := range styles {
		db := dial(t, s.DSN())
		l, other := open(t, make, db), open(t, make, db)
		names := []string{style + "a", style + "b", style + "c", style + "d"}
		cycle(t, l, names[2])
		first, second := acquire(t, other, names[0]), acquire(t, other, names[1])
		got := map[string]fencelock.Lock{}
		for range 2 {
			lock, err := l.TryAny(long(t), names...)
			require.NoError(t, err)
			got[lock.Name()] = lock
		}
		require.Len(t, got, 2)
		require.Contains(t, got, names[2])
		require.Contains(t, got, names[3])
		_, err := l.TryAny(long(t), names...)
		require.ErrorIs(t, err, fencelock.ErrHeld)
		release(t, first)
		lock, err := l.TryAny(long(t), names...)
		require.NoError(t, err)
		require.Equal(t, names[0], lock.Name())
		for _, k := range []fencelock.Lock{lock, second, got[names[2]], got[names[3]]} {
			release(t, k)
		}
	}
}

func TestStatus(t *testing.T) {
	s := database(t)
	for style, make := range styles {
		l := open(t, make, dial(t, s.DSN()))
		want := fencelock.Status{Waiters: -1}
		st, err := l.Status(long(t), style)
		require.NoError(t, err)
		require.Equal(t, want, st)
		lock := acquire(t, l, style)
		st, err = l.Status(long(t), style)
		require.NoError(t, err)
		require.True(t, st.Held)
		require.Equal(t, lock.Token(), st.Token)
		require.Equal(t, style == "lease", st.For > 0)
		release(t, lock)
		st, err = l.Status(long(t), style)
		require.NoError(t, err)
		require.False(t, st.Held)
		require.GreaterOrEqual(t, st.Token, lock.Token())
		_, err = l.Status(long(t), "")
		require.Error(t, err)
	}
}

func TestBadPoolsAreRefused(t *testing.T) {
	s := testserver.StartMariaDB(t)
	missing := dial(t, s.DSN())
	one := dial(t, s.DSN())
	one.SetMaxOpenConns(1)
	for style, make := range styles {
		_, err := make(nil)
		require.ErrorContains(t, err, "sql.Open")
		_, err = make(one)
		require.ErrorContains(t, err, "SetMaxOpenConns")
		_, err = make(missing, mysql.TablePrefix(".x"))
		require.ErrorContains(t, err, "TablePrefix")
		_, err = make(missing, fencelock.TTL(time.Millisecond))
		require.Error(t, err)

		l := open(t, make, missing)
		_, err = l.Acquire(long(t), "n")
		require.ErrorContains(t, err, "mysql.Migrate", style)
		require.ErrorContains(t, err, "mysql/schema.sql")
		require.NotErrorIs(t, err, fencelock.ErrHeld)
	}
	_, err := mysql.NewFence(nil)
	require.ErrorContains(t, err, "nil")
	_, err = mysql.TxLock(long(t), nil, "n")
	require.ErrorContains(t, err, "nil")
	_, err = mysql.NewTokens(nil)
	require.ErrorContains(t, err, "sql.Open")
	_, err = mysql.NewTokens(missing, fencelock.TTL(time.Second))
	require.ErrorContains(t, err, "TTL")
	require.ErrorContains(t, mysql.Migrate(long(t), nil), "sql.Open")
	_, err = mysql.Prune(long(t), missing)
	require.ErrorContains(t, err, "mysql.Migrate")

	migrate(t, s)
	s.Exec("SET GLOBAL read_only = ON")
	for style, make := range styles {
		l := open(t, make, missing)
		_, err := l.Acquire(long(t), "n")
		require.ErrorContains(t, err, "read-only", style)
		require.NotErrorIs(t, err, fencelock.ErrHeld)
	}
	s.Exec("SET GLOBAL read_only = OFF")
	for _, make := range styles {
		cycle(t, open(t, make, missing), "n") // nothing was left, all goes on
	}
}

func TestTablesAreWhereTheyAreSaidToBe(t *testing.T) {
	s := database(t)
	db := dial(t, s.DSN())
	other := testserver.SharedMariaDB(t).NewDatabase(t)
	name := other.Strings("SELECT DATABASE()")[0]
	prefix := mysql.TablePrefix(name + ".odd`name_")
	for range 2 {
		require.NoError(t, mysql.Migrate(long(t), db, prefix))
	}
	require.Len(t, other.Strings("SHOW TABLES LIKE 'odd%'"), 3)
	for _, make := range styles {
		a, b := open(t, make, db, prefix), open(t, make, db)
		cycle(t, a, "n")
		cycle(t, b, "n")
	}
	source, err := mysql.NewTokens(db, prefix)
	require.NoError(t, err)
	_, err = source.Next(long(t), "n")
	require.NoError(t, err)
	ddl, err := mysql.DDL(prefix)
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(ddl, "`"+name+"`.`odd``name_"))
	ddl, err = mysql.DDL()
	require.NoError(t, err)
	require.Contains(t, ddl, "`fencelock_locks`")
}

func TestMigrateInManyProcessesAtOnce(t *testing.T) {
	s := testserver.SharedMariaDB(t).NewDatabase(t)
	var all sync.WaitGroup
	for range 8 {
		db := dial(t, s.DSN())
		all.Go(func() {
			if err := mysql.Migrate(context.Background(), db); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
