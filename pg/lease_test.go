package pg_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/pg"
)

// S1: another mints and takes in between; what is granted later is greater.
func TestTokensRiseWhateverIsInterleaved(t *testing.T) {
	pool := connect(t, database(t).URL())
	a, b := open(t, pool), open(t, pool)
	row, err := pg.NewTokens(pool)
	require.NoError(t, err)
	optimistic, err := pg.NewOptimisticTokens(pool)
	require.NoError(t, err)
	var last fencelock.Token
	for range 10 {
		for _, next := range []func() fencelock.Token{
			func() fencelock.Token { return cycle(t, a, "n") },
			func() fencelock.Token { n, err := row.Next(long(t), "n"); require.NoError(t, err); return n },
			func() fencelock.Token { return cycle(t, b, "n", fencelock.Passes(0)) },
			func() fencelock.Token { n, err := optimistic.Next(long(t), "n"); require.NoError(t, err); return n },
		} {
			token := next()
			require.Greater(t, token, last)
			last = token
		}
	}
}

// S9, S11: a pool that throws its connections away every second, and is used up
// by others most of the time, takes no lock away; those who wait keep none.
func TestHeldWhilePoolIsBusy(t *testing.T) {
	server := database(t)
	pool := connect(t, server.URL(), func(c *pgxpool.Config) {
		c.MaxConns, c.MaxConnLifetime = 2, time.Second
	})
	l := open(t, pool, fencelock.TTL(1500*time.Millisecond))
	lock := acquire(t, l, "n")
	ctx, cancel := context.WithCancel(long(t))
	var all sync.WaitGroup
	waiters := open(t, pool)
	for range 50 {
		all.Go(func() {
			if _, err := waiters.Acquire(ctx, "n"); !errors.Is(err, context.Canceled) {
				t.Errorf("a waiter got %v", err)
			}
		})
	}
	all.Go(func() { // work of the application
		for ctx.Err() == nil {
			_, _ = pool.Exec(ctx, "SELECT pg_sleep(0.05)")
		}
	})
	select {
	case <-lock.Lost():
		t.Fatal(lock.Err())
	case <-time.After(4 * time.Second):
	}
	cancel()
	all.Wait()
	release(t, lock)
}

// S14: these two names are one number under hashtext. S19: long names are
// neither cut nor refused.
func TestNamesThatShareAHashElsewhere(t *testing.T) {
	l := open(t, connect(t, database(t).URL()))
	long := strings.Repeat("x", 8000)
	for _, name := range []string{"lock-10172", "lock-186036", long + "a", long + "b", strings.Repeat("y", 64), strings.Repeat("y", 65)} {
		acquire(t, l, name)
	}
}

// S17's kind: how a session reports and prepares is its own affair.
func TestEveryExecMode(t *testing.T) {
	server := database(t)
	other := open(t, connect(t, server.URL()))
	modes := []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	}
	type held struct {
		pool *pgxpool.Pool
		l    *pg.Locker
		lock fencelock.Lock
	}
	holds := map[pgx.QueryExecMode]held{}
	for _, mode := range modes {
		pool := connect(t, server.URL(), execMode(mode))
		l := open(t, pool, fencelock.TTL(2*time.Second))
		holds[mode] = held{pool, l, acquire(t, l, mode.String())}
	}
	<-time.After(3 * time.Second) // longer than the TTL: they are renewed
	for mode, h := range holds {
		t.Run(mode.String(), func(t *testing.T) {
			pool, l, lock, name := h.pool, h.l, h.lock, mode.String()
			require.NoError(t, lock.Err())
			_, err := other.TryAcquire(long(t), name)
			require.ErrorIs(t, err, fencelock.ErrHeld)
			release(t, lock)
			got, err := l.TryAny(long(t), name, name+"2")
			require.NoError(t, err)
			_, err = other.TryAny(long(t), got.Name())
			require.ErrorIs(t, err, fencelock.ErrHeld)
			s, err := l.Status(long(t), got.Name())
			require.NoError(t, err)
			require.Equal(t, fencelock.Status{Held: true, Token: got.Token(), Since: time.UnixMicro(int64(got.Token())), For: s.For, Waiters: -1}, s)
			require.Greater(t, s.For, time.Duration(0))
			require.NoError(t, pgx.BeginFunc(long(t), pool, func(tx pgx.Tx) error {
				if _, err := pg.TxLock(long(t), tx, name); err != nil {
					return err
				}
				f, err := pg.NewFence(tx)
				if err != nil {
					return err
				}
				return errors.Join(f.Admit(long(t), name, got.Token()), f.Strict().Admit(long(t), name, got.Token()))
			}))
			for _, newTokens := range []func(*pgxpool.Pool, ...fencelock.Option) (*pg.Tokens, error){pg.NewTokens, pg.NewOptimisticTokens} {
				source, err := newTokens(pool)
				require.NoError(t, err)
				token, err := source.Next(long(t), name)
				require.NoError(t, err)
				require.Greater(t, token, lock.Token())
			}
			_, err = pg.Prune(long(t), pool)
			require.NoError(t, err)
			require.NoError(t, pg.Migrate(long(t), pool))
		})
	}
}

// S18: new names, all at once, from many connections.
func TestNewNamesAllAtOnce(t *testing.T) {
	server := database(t)
	var all sync.WaitGroup
	for _, l := range []*pg.Locker{open(t, connect(t, server.URL())), open(t, connect(t, server.URL(), param("default_transaction_isolation", "serializable")))} {
		for range 25 {
			all.Go(func() {
				for i := range 20 {
					lock, err := l.Acquire(long(t), fmt.Sprint("new", i))
					if err == nil {
						err = lock.Release(long(t))
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
}

// S20: the session's time zone has no say.
func TestTimeZonesDoNotMoveTheExpiry(t *testing.T) {
	server := database(t)
	names := map[string]*pg.Locker{}
	for _, zone := range []string{"UTC", "+05:30", "Asia/Kolkata", "America/New_York", "-12"} {
		names[zone] = open(t, connect(t, server.URL(), param("timezone", zone)), fencelock.TTL(time.Minute))
	}
	var last fencelock.Token
	for zone, l := range names {
		lock := acquire(t, l, "n")
		require.Greater(t, lock.Token(), last)
		last = lock.Token()
		for other, o := range names {
			if other != zone {
				_, err := o.TryAcquire(long(t), "n")
				var held *fencelock.HeldError
				require.ErrorAs(t, err, &held, "held in %s, tried in %s", zone, other)
				require.InDelta(t, time.Minute, held.For, float64(30*time.Second))
			}
		}
		release(t, lock)
	}
}

// A release that somebody waits for wakes them; one that nobody waits for sends
// nothing; and the connection for it goes when the Locker is idle.
func TestReleaseWakesThoseWhoWait(t *testing.T) {
	server := database(t)
	heard := make(chan string, 100)
	spy, err := pgx.ParseConfig(server.URL())
	require.NoError(t, err)
	spy.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { heard <- n.Payload }
	c, err := pgx.ConnectConfig(long(t), spy)
	require.NoError(t, err)
	defer c.Close(context.Background())
	_, err = c.Exec(long(t), "LISTEN fencelock")
	require.NoError(t, err)
	sent := func() int {
		_, err := c.Exec(long(t), "SELECT 1")
		require.NoError(t, err)
		return len(heard)
	}

	slow := fencelock.Backoff(time.Minute, time.Minute) // only a message can wake them
	holder := open(t, connect(t, server.URL()), fencelock.TTL(time.Minute))
	waiter := open(t, connect(t, server.URL()), fencelock.TTL(3*time.Second), slow)
	for range 3 {
		cycle(t, holder, "n")
	}
	require.Zero(t, sent(), "nobody waits")

	lock := acquire(t, holder, "n")
	got := make(chan error, 1)
	go func() {
		lock, err := waiter.Acquire(long(t), "n", fencelock.TTL(time.Minute))
		if err == nil {
			err = lock.Release(long(t))
		}
		got <- err
	}()
	eventually(t, func() bool {
		return server.Strings("SELECT count(*) FROM fencelock_locks WHERE waiting_until > now()")[0] == "1"
	}, "the waiter marks the row")
	require.Equal(t, []string{"1"}, server.Strings("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'fencelock' AND datname = current_database()"))
	release(t, lock)
	select {
	case err := <-got:
		require.NoError(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("not woken")
	}
	require.NotZero(t, sent())

	// The connection is ended by the server while somebody waits: it comes back.
	lock = acquire(t, holder, "n")
	go func() {
		lock, err := waiter.Acquire(long(t), "n", fencelock.TTL(time.Minute))
		if err == nil {
			err = lock.Release(long(t))
		}
		got <- err
	}()
	listeners := "SELECT pid FROM pg_stat_activity WHERE application_name = 'fencelock' AND datname = current_database() AND wait_event = 'ClientRead'"
	var pid string
	eventually(t, func() bool {
		pids := server.Strings(listeners)
		if len(pids) == 1 {
			pid = pids[0]
		}
		return len(pids) == 1
	}, "the waiter listens")
	server.Exec("SELECT pg_terminate_backend($1)", pid)
	eventually(t, func() bool { pids := server.Strings(listeners); return len(pids) == 1 && pids[0] != pid }, "it listens again")
	release(t, lock)
	select {
	case err := <-got:
		require.NoError(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("not woken")
	}
	eventually(t, func() bool {
		return server.Strings("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'fencelock' AND datname = current_database()")[0] == "0"
	}, "an idle Locker has no connection")
}

// One statement and one commit for an acquire, and for a release.
func TestCostOfACycle(t *testing.T) {
	server := database(t)
	var n atomic.Int64
	l := open(t, connect(t, server.URL(), traced(&n)))
	cycle(t, l, "n") // the first use looks for a pooler
	before := n.Load()
	const cycles = 50
	for range cycles {
		cycle(t, l, "n")
	}
	require.EqualValues(t, 2*cycles, n.Load()-before)
	before = n.Load()
	lock := acquire(t, l, "n")
	for range 10 {
		_, err := l.TryAcquire(long(t), "n")
		require.ErrorIs(t, err, fencelock.ErrHeld)
	}
	require.EqualValues(t, 1, n.Load()-before, "a hold in this process refuses without a trip")
	release(t, lock)
}

func TestTryAnyTakesAFreeOne(t *testing.T) {
	server := database(t)
	a, b := open(t, connect(t, server.URL())), open(t, connect(t, server.URL()))
	names := []string{"1", "2", "3", "4"}
	var mu sync.Mutex
	got := map[string]bool{}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			lock, err := []*pg.Locker{a, b}[i%2].TryAny(long(t), names...)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || got[lock.Name()] {
				t.Errorf("TryAny: %v, %v", lock, err)
				return
			}
			got[lock.Name()] = true
		})
	}
	all.Wait()
	require.Len(t, got, 4)
	_, err := a.TryAny(long(t), names...)
	require.ErrorIs(t, err, fencelock.ErrHeld)

	// A row that another transaction has locked is passed over, not waited for.
	cycle(t, a, "5")
	unstick := stick(t, server, "fencelock/5")
	defer unstick()
	_, err = a.TryAny(long(t), append(names, "5")...)
	require.ErrorIs(t, err, fencelock.ErrHeld)
	lock, err := a.TryAny(long(t), append(names, "5", "6")...)
	require.NoError(t, err)
	require.Equal(t, "6", lock.Name())
}
