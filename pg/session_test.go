package pg_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testlock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/pg"
)

// eachStyle runs f for the styles whose holds are sessions.
func eachStyle(t *testing.T, f func(t *testing.T, style string)) {
	for _, style := range sessionStyles {
		t.Run(style, func(t *testing.T) { f(t, style) })
	}
}

// locker returns a Locker that is closed with the test.
func locker(t testing.TB, style string, pool *pgxpool.Pool, opts ...fencelock.Option) *pg.Locker {
	t.Helper()
	l, err := styles[style](pool, opts...)
	return testlock.Open(t, l, err)
}

// lost waits for the loss of a lock whose TTL is far longer than that.
func lost(t testing.TB, lock fencelock.Lock, within time.Duration) {
	t.Helper()
	require.Equal(t, fencelock.SessionGone, testlock.Lost(t, lock, within).Reason)
	require.ErrorIs(t, lock.Release(long(t)), fencelock.ErrLost)
}

// S7: within a second; the TTL of a minute does not tell.
func TestHolderIsToldOfATerminatedSession(t *testing.T) {
	eachStyle(t, func(t *testing.T, style string) {
		db := database(t)
		l, other := locker(t, style, connect(t, db.URL()), fencelock.TTL(time.Minute)), locker(t, style, connect(t, db.URL()))
		lock := acquire(t, l, "a")
		next := make(chan fencelock.Lock, 1)
		go func() {
			lock, _ := other.Acquire(long(t), "a")
			next <- lock
		}()
		waiting(t, l, "a", 1)
		terminate(t, db, style, "fencelock/a")
		lost(t, lock, 10*time.Second)
		after := <-next
		require.NotNil(t, after)
		require.Greater(t, after.Token(), lock.Token())
		require.Empty(t, db.Strings(`SELECT FROM pg_stat_activity WHERE application_name LIKE 'fencelock%' AND datname = current_database()
			AND pid <> $1`, holder(t, db, style, "fencelock/a")), "no session has been opened in place of the lost one")
		release(t, after)
		require.Greater(t, cycle(t, l, "a"), after.Token(), "and it works again")
	})
}

func TestHolderIsToldOfAClosedConnection(t *testing.T) {
	eachStyle(t, func(t *testing.T, style string) {
		db := database(t)
		p := testserver.NewProxy(t, db.Addr())
		l := locker(t, style, connect(t, db.Via(p.Addr())), fencelock.TTL(time.Minute))
		lock := acquire(t, l, "a")
		p.Cut()
		select {
		case <-lock.Lost():
		case <-time.After(10 * time.Second):
			t.Fatal("not told")
		}
		p.Heal()
		cycle(t, l, "a")
	})
}

func TestHoldersAreToldOfACrashedServer(t *testing.T) {
	server := testserver.StartPostgres(t, "fsync=on")
	migrate(t, server)
	tokens, locks, lockers := map[string]fencelock.Token{}, map[string]fencelock.Lock{}, map[string]*pg.Locker{}
	for _, style := range sessionStyles {
		lockers[style] = locker(t, style, connect(t, server.URL()), fencelock.TTL(time.Minute), fencelock.Prefix(style))
		locks[style] = acquire(t, lockers[style], "a")
		tokens[style] = locks[style].Token()
	}
	server.Kill()
	for _, style := range sessionStyles {
		select {
		case <-locks[style].Lost():
		case <-time.After(10 * time.Second):
			t.Fatal("not told")
		}
	}
	server.Restart()
	for _, style := range sessionStyles {
		require.Greater(t, cycle(t, lockers[style], "a"), tokens[style])
	}
}

// A server whose client has fallen silent has nobody who tells it so.
func TestServerEndsASilentSessionAfterTheTTL(t *testing.T) {
	eachStyle(t, func(t *testing.T, style string) {
		db := database(t)
		p := testserver.NewProxy(t, db.Addr())
		const ttl = 2 * time.Second
		l := locker(t, style, connect(t, db.Via(p.Addr())), fencelock.TTL(ttl))
		other := locker(t, style, connect(t, db.URL()), fencelock.TTL(time.Minute))
		lock := acquire(t, l, "a")
		start := time.Now()
		p.Drop(testserver.Both)
		next := acquire(t, other, "a")
		require.Error(t, lock.Err(), "the holder knew it before")
		require.Greater(t, time.Since(start), ttl/2)
		require.Less(t, time.Since(start), ttl+10*time.Second)
		release(t, next)
		p.Cut()
	})
}

// S9: the pool's limits on connections are not for those that hold.
func TestPoolLifetimeDoesNotEndAHold(t *testing.T) {
	eachStyle(t, func(t *testing.T, style string) {
		db := database(t)
		pool := connect(t, db.URL(), func(c *pgxpool.Config) {
			c.MaxConnLifetime, c.MaxConnIdleTime, c.HealthCheckPeriod = time.Second, time.Second, 100*time.Millisecond
		})
		l := locker(t, style, pool, fencelock.TTL(time.Minute))
		require.NoError(t, pool.Ping(long(t)))
		lock := acquire(t, l, "a")
		eventually(t, func() bool { return pool.Stat().MaxLifetimeDestroyCount()+pool.Stat().MaxIdleDestroyCount() > 0 }, "the pool closes connections")
		<-time.After(time.Second)
		_, err := locker(t, style, connect(t, db.URL())).TryAcquire(long(t), "a")
		require.ErrorIs(t, err, fencelock.ErrHeld)
		release(t, lock)
	})
}

// S11
func TestHoldIsRenewedAndReleasedWhileThePoolIsUsedUp(t *testing.T) {
	eachStyle(t, func(t *testing.T, style string) {
		db := database(t)
		pool := connect(t, db.URL(), func(c *pgxpool.Config) { c.MaxConns = 2 })
		const ttl = 2 * time.Second
		l := locker(t, style, pool, fencelock.TTL(ttl))
		lock := acquire(t, l, "a")
		for range 2 {
			begin(t, pool)
		}
		select {
		case <-lock.Lost():
			t.Fatal(lock.Err())
		case <-time.After(2 * ttl):
		}
		release(t, lock)
	})
}

// S13
func TestDefaultIsolationOfTheDatabaseDoesNotMatter(t *testing.T) {
	eachStyle(t, func(t *testing.T, style string) {
		for _, level := range []string{"repeatable read", "serializable"} {
			db := database(t)
			var all sync.WaitGroup
			var inside, wrong atomic.Int32
			for range 4 {
				l := locker(t, style, connect(t, db.URL(), param("default_transaction_isolation", level)), fencelock.Passes(0))
				for range 4 {
					all.Go(func() {
						for range 10 {
							lock, err := l.Acquire(long(t), "a")
							if err != nil {
								t.Errorf("%s: %v", level, err)
								return
							}
							wrong.Add(inside.Add(1) - 1)
							inside.Add(-1)
							if err := lock.Release(long(t)); err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			all.Wait()
			require.Zero(t, wrong.Load())
		}
	})
}

// S14: these two are one under hashtext.
func TestNamesWithOneShortHashAreTwoLocks(t *testing.T) {
	eachStyle(t, func(t *testing.T, style string) {
		l := locker(t, style, connect(t, database(t).URL()), fencelock.Prefix(""))
		release(t, acquire(t, l, "lock-10172"))
		a, b := acquire(t, l, "lock-10172"), acquire(t, l, "lock-186036")
		release(t, a)
		release(t, b)
	})
}

// S16
func TestCancelledWaiterDoesNotGetTheLockLater(t *testing.T) {
	eachStyle(t, func(t *testing.T, style string) {
		db := database(t)
		l, waiter := locker(t, style, connect(t, db.URL())), locker(t, style, connect(t, db.URL()))
		lock := acquire(t, l, "a")
		ctx, cancel := context.WithCancel(long(t))
		done := make(chan error, 1)
		go func() {
			_, err := waiter.Acquire(ctx, "a")
			done <- err
		}()
		waiting(t, l, "a", 1)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		waiting(t, l, "a", 0)
		release(t, lock)
		lock, err := locker(t, style, connect(t, db.URL())).TryAcquire(long(t), "a")
		require.NoError(t, err)
		release(t, lock)
	})
}

// waiting waits until n processes wait for name.
func waiting(t testing.TB, l *pg.Locker, name string, n int) {
	t.Helper()
	eventually(t, func() bool {
		s, err := l.Status(long(t), name)
		require.NoError(t, err)
		return s.Waiters == n
	}, fmt.Sprint(n, " wait"))
}

func TestWaitersAreServedInTheOrderTheyCame(t *testing.T) {
	eachStyle(t, func(t *testing.T, style string) {
		db := database(t)
		first := locker(t, style, connect(t, db.URL()))
		lock := acquire(t, first, "a")
		const n = 5
		order := make(chan int, n)
		for i := range n {
			l := locker(t, style, connect(t, db.URL()))
			go func() {
				lock, err := l.Acquire(long(t), "a")
				if err != nil {
					t.Error(err)
				}
				order <- i
				if err == nil {
					_ = lock.Release(long(t))
				}
			}()
			waiting(t, first, "a", i+1)
		}
		release(t, lock)
		for i := range n {
			require.Equal(t, i, <-order)
		}
	})
}

func TestStatusShowsHolderAndWaiters(t *testing.T) {
	eachStyle(t, func(t *testing.T, style string) {
		l := locker(t, style, connect(t, database(t).URL()))
		s, err := l.Status(long(t), "a")
		require.NoError(t, err)
		require.Equal(t, fencelock.Status{}, s)
		token := cycle(t, l, "a")
		lock := acquire(t, l, "a")
		s, err = l.Status(long(t), "a")
		require.NoError(t, err)
		require.Equal(t, fencelock.Status{Held: true, Token: lock.Token(), Since: time.UnixMicro(int64(lock.Token()))}, s)
		require.Greater(t, lock.Token(), token)
		release(t, lock)
		s, err = l.Status(long(t), "a")
		require.NoError(t, err)
		require.False(t, s.Held)
		require.GreaterOrEqual(t, s.Token, lock.Token())
	})
}

func TestTryAnyTakesWhatIsFree(t *testing.T) {
	eachStyle(t, func(t *testing.T, style string) {
		db := database(t)
		a, b := locker(t, style, connect(t, db.URL())), locker(t, style, connect(t, db.URL()))
		names := []string{"1", "2", "3", "4"}
		got := map[string]fencelock.Lock{}
		for i := range names {
			lock, err := []*pg.Locker{a, b}[i%2].TryAny(long(t), names...)
			require.NoError(t, err)
			require.NotContains(t, got, lock.Name())
			got[lock.Name()] = lock
		}
		_, err := a.TryAny(long(t), names...)
		require.ErrorIs(t, err, fencelock.ErrHeld)
		release(t, got["3"])
		lock, err := b.TryAny(long(t), names...)
		require.NoError(t, err)
		require.Equal(t, "3", lock.Name())
		for _, name := range []string{"1", "2", "4"} {
			release(t, got[name])
		}
		release(t, lock)
	})
}

// Prune may remove a row at any time at which nobody has locked it.
func TestPrunedRowIsMadeAgain(t *testing.T) {
	db := database(t)
	pool := connect(t, db.URL())
	stop := make(chan struct{})
	var pruning, all sync.WaitGroup
	pruning.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := pool.Exec(long(t), `DELETE FROM fencelock_rows WHERE key IN (SELECT key FROM fencelock_rows FOR UPDATE SKIP LOCKED)`); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var inside, wrong atomic.Int32
	for range 4 {
		l := locker(t, "row", connect(t, db.URL()), fencelock.Passes(0))
		all.Go(func() {
			for range 50 {
				lock, err := l.Acquire(long(t), "a")
				if err != nil {
					t.Error(err)
					return
				}
				wrong.Add(inside.Add(1) - 1)
				inside.Add(-1)
				if err := lock.Release(long(t)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	close(stop)
	pruning.Wait()
	require.Zero(t, wrong.Load())
}

func TestTTLOfASessionIsForNewOnly(t *testing.T) {
	eachStyle(t, func(t *testing.T, style string) {
		l := locker(t, style, connect(t, database(t).URL()))
		_, err := l.Acquire(long(t), "a", fencelock.TTL(time.Minute))
		require.ErrorContains(t, err, "New only")
	})
}
