package mysql_test

import (
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	driver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/locktest"
	"github.com/fencelock/fencelock/mysql"
)

func TestTokenSources(t *testing.T) {
	s := database(t)
	for _, found := range []bool{false, true} { // S17
		db := dial(t, s.DSN(), func(c *driver.Config) { c.ClientFoundRows, c.InterpolateParams = found, found })
		locktest.RunTokens(t, func(t testing.TB) fencelock.TokenSource {
			source, err := mysql.NewTokens(db)
			require.NoError(t, err)
			return source
		})
		optimistic := false
		locktest.RunTokens(t, func(t testing.TB) fencelock.TokenSource { // the two share their counters
			optimistic = !optimistic
			source, err := mysql.NewOptimisticTokens(db)
			if !optimistic {
				source, err = mysql.NewTokens(db)
			}
			require.NoError(t, err)
			return source
		})
	}
}

// The counter of the Lockers and of the sources is one.
func TestTokensAndLocksShareACounter(t *testing.T) {
	db := dial(t, database(t).DSN())
	source, err := mysql.NewTokens(db)
	require.NoError(t, err)
	for style, make := range styles {
		l, last := open(t, make, db), fencelock.Token(0)
		for range 5 {
			a := cycle(t, l, style)
			b, err := source.Next(long(t), style)
			require.NoError(t, err)
			require.Less(t, last, a)
			require.Less(t, a, b)
			last = b
		}
	}
}

// Tokens go on rising when the counter is lost, and when the clock is behind it.
func TestTokensSurviveTheLossOfTheCounter(t *testing.T) {
	s := database(t)
	db := dial(t, s.DSN())
	for style, make := range styles {
		l := open(t, make, db)
		a := cycle(t, l, "n"+style)
		s.Exec("DELETE FROM fencelock_locks")
		b := cycle(t, l, "n"+style)
		require.Greater(t, b, a)
		s.Exec("UPDATE fencelock_locks SET token = token + 3600000000")
		c := cycle(t, l, "n"+style)
		require.Greater(t, c, b+3600000000)
		s.Exec("UPDATE fencelock_locks SET token = ?", int64(1)<<62)
		_, err := l.Acquire(long(t), "n"+style)
		require.ErrorIs(t, err, fencelock.ErrRegressed)
		s.Exec("UPDATE fencelock_locks SET token = ?", int64(c))
		require.Greater(t, cycle(t, l, "n"+style), c, "the refusal has left nothing")
	}
}

// S2, S3: what was handed out is on disk; a server that dies does not mint it again.
func TestTokensSurviveAKilledServer(t *testing.T) {
	s := testserver.StartMariaDB(t, "--innodb-flush-log-at-trx-commit=1")
	migrate(t, s)
	for round := range 3 {
		var mu sync.Mutex
		last, minted := make(map[string]fencelock.Token), 0
		var all sync.WaitGroup
		for style, make := range styles {
			for i := range 4 {
				l, name := open(t, make, dial(t, s.DSN())), fmt.Sprint(style, i)
				all.Go(func() {
					for {
						lock, err := l.TryAcquire(long(t), name)
						if err != nil {
							if !errors.Is(err, fencelock.ErrHeld) {
								return // the server is gone
							}
							continue
						}
						mu.Lock()
						last[name] = lock.Token()
						mu.Unlock()
						_ = lock.Release(long(t))
					}
				})
			}
		}
		source, err := mysql.NewTokens(dial(t, s.DSN()))
		require.NoError(t, err)
		all.Go(func() {
			for {
				token, err := source.Next(long(t), "source")
				if err != nil {
					return
				}
				mu.Lock()
				last["source"] = token
				minted++
				mu.Unlock()
			}
		})
		eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(last) == 4*len(styles)+1 }, "all are at work")
		// Killed in another part of the work each time.
		eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return minted > 5+20*round }, "tokens are minted")
		s.Kill()
		all.Wait()
		s.Restart()
		db := dial(t, s.DSN())
		for style, make := range styles {
			l := open(t, make, db)
			for i := range 4 {
				name := fmt.Sprint(style, i)
				require.Greater(t, cycle(t, l, name), last[name])
			}
		}
		after, err := newTokens(t, db).Next(long(t), "source")
		require.NoError(t, err)
		require.Greater(t, after, last["source"])
	}
}

func newTokens(t testing.TB, db *sql.DB) *mysql.Tokens {
	t.Helper()
	source, err := mysql.NewTokens(db)
	require.NoError(t, err)
	return source
}

func TestPruneForgetsOldNamesOnly(t *testing.T) {
	s := database(t)
	db := dial(t, s.DSN())
	l := open(t, mysql.NewLease, db)
	const eightDays = 8 * 24 * 3600 * 1_000_000
	for i := range 1200 { // more than one batch
		s.Exec("INSERT INTO fencelock_locks (lock_key, name, token) VALUES (?, 'old', ?)", fmt.Sprintf("%032d", i), 1000)
		s.Exec("INSERT INTO fencelock_rows (lock_key, name) VALUES (?, 'old')", fmt.Sprintf("%032d", i))
		if i == 20 && testing.Short() {
			break
		}
	}
	old := s.Strings("SELECT COUNT(*) FROM fencelock_locks")[0]
	token := cycle(t, l, "young")
	held := acquire(t, l, "held")
	s.Exec("UPDATE fencelock_locks SET token = token - ?, first_token = 0 WHERE lock_key = "+keyOf("held"), eightDays)
	n, err := mysql.Prune(long(t), db)
	require.NoError(t, err)
	require.Equal(t, old, fmt.Sprint(n))
	require.Equal(t, []string{"fencelock/held", "fencelock/young"}, s.Strings("SELECT name FROM fencelock_locks ORDER BY name"))
	require.Empty(t, s.Strings("SELECT name FROM fencelock_rows"))
	release(t, held)
	require.Greater(t, cycle(t, l, "young"), token)

	// A tombstone is no old name, though it has no token.
	require.NoError(t, err)
	n, err = mysql.Prune(long(t), db)
	require.NoError(t, err)
	require.Zero(t, n)
}
