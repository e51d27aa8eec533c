package pg

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/testserver"
)

// prepared returns a database with the tables.
func prepared(t *testing.T) (*database, *testserver.Postgres) {
	t.Helper()
	s := testserver.SharedPostgres(t).NewDatabase(t)
	pool, err := pgxpool.New(t.Context(), s.URL())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	require.NoError(t, Migrate(t.Context(), pool))
	set, err := lease.Settings("pg", nil)
	require.NoError(t, err)
	d, err := openDatabase(pool, set)
	require.NoError(t, err)
	return d, s
}

// session returns one that is closed with the test.
func (d *database) session(t *testing.T, k kind) *held {
	t.Helper()
	c, err := d.connect(t.Context(), "test", time.Minute)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	return &held{c, k}
}

func asked() lease.Request {
	return lease.Request{
		Key: "k", Attempt: "0123456789abcdef0123456789abcdef",
		Tokens: func() int { return 10 }, Refused: func(time.Duration) {},
	}
}

// hooked is a kind with something in between.
type hooked struct {
	kind
	afterWait  func(context.Context, bool, error) (bool, error)
	beforeMint func()
}

func (h hooked) wait(ctx context.Context, c *pgx.Conn, key string) (bool, error) {
	got, err := h.kind.wait(ctx, c, key)
	return h.afterWait(ctx, got, err)
}

func (h hooked) mint(ctx context.Context, c *pgx.Conn, r lease.Request) (minted, time.Time, error) {
	if h.beforeMint != nil {
		h.beforeMint()
	}
	return h.kind.mint(ctx, c, r)
}

// S6
func TestLockThatATimeOutDeniedIsNotKept(t *testing.T) {
	d, server := prepared(t)
	for _, k := range []kind{advisory{d.t}, row{d}} {
		holder := d.session(t, k)
		_, err := holder.Lock(t.Context(), asked(), false)
		require.NoError(t, err)
		denied := 0
		waiter := d.session(t, hooked{kind: k, afterWait: func(_ context.Context, got bool, err error) (bool, error) {
			if denied++; denied == 1 && got {
				return false, &pgconn.PgError{Code: lockNotAvailable}
			}
			return got, err
		}})
		r := asked()
		r.Refused = func(time.Duration) {
			if denied == 0 {
				require.NoError(t, holder.Unlock(context.Background(), asked()))
			}
		}
		_, err = waiter.Lock(t.Context(), r, true)
		require.NoError(t, err)
		require.Equal(t, 2, denied)
		require.NoError(t, waiter.Unlock(t.Context(), r))
		require.Empty(t, server.Strings("SELECT FROM pg_locks WHERE pid = $1 AND locktype IN ('advisory', 'transactionid')", waiter.pid))
	}
}

// S21: what a session that has died mints is not granted: the next holder may
// have less.
func TestSessionThatDiesBeforeItsMintGrantsNothing(t *testing.T) {
	d, server := prepared(t)
	for _, k := range []kind{advisory{d.t}, row{d}} {
		var dying *held
		dying = d.session(t, hooked{kind: k, beforeMint: func() {
			server.Exec("SELECT pg_terminate_backend($1)", dying.pid)
			require.Eventually(t, func() bool {
				return len(server.Strings("SELECT FROM pg_stat_activity WHERE pid = $1", dying.pid)) == 0
			}, 20*time.Second, time.Millisecond)
		}})
		_, err := dying.Lock(t.Context(), asked(), false)
		require.Error(t, err)
		require.NotErrorIs(t, err, fencelock.ErrHeld)
		require.False(t, lease.IsDefinite(err))
	}
}

// A MinToken that is refused is known only when the lock has been taken.
func TestLockIsGivenBackIfItsTokensAreRefused(t *testing.T) {
	d, server := prepared(t)
	for _, k := range []kind{advisory{d.t}, row{d}} {
		s := d.session(t, k)
		r := asked()
		r.Min = fencelock.Token(time.Now().Add(48 * time.Hour).UnixMicro())
		_, err := s.Lock(t.Context(), r, false)
		require.ErrorContains(t, err, "MinToken")
		require.True(t, lease.IsDefinite(err))
		require.Empty(t, server.Strings("SELECT FROM pg_locks WHERE pid = $1 AND locktype IN ('advisory', 'transactionid')", s.pid))
		_, err = s.Lock(t.Context(), asked(), false)
		require.NoError(t, err, "the session is as before")
	}
}

// What may still have a lock is ended at the server, whatever the network does.
func TestCloseEndsASessionThatTheServerBelievesIn(t *testing.T) {
	d, server := prepared(t)
	for _, k := range []kind{advisory{d.t}, row{d}} {
		p := testserver.NewProxy(t, server.Addr())
		pool, err := pgxpool.New(t.Context(), server.Via(p.Addr()))
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		s := (&database{pool: pool, t: d.t}).session(t, k)
		_, err = s.Lock(t.Context(), asked(), false)
		require.NoError(t, err)
		p.Drop(testserver.Both) // the server does not see that the connection is closed
		s.db = d
		require.NoError(t, s.Close(t.Context()))
		require.Empty(t, server.Strings("SELECT FROM pg_stat_activity WHERE pid = $1", s.pid))
		<-s.Broken()
		require.Error(t, s.Ping(t.Context()))
		require.NoError(t, s.Close(t.Context()), "again")
	}
}

func TestCloseMakesAWaitReturn(t *testing.T) {
	d, _ := prepared(t)
	for _, k := range []kind{advisory{d.t}, row{d}} {
		holder, waiter := d.session(t, k), d.session(t, k)
		_, err := holder.Lock(t.Context(), asked(), false)
		require.NoError(t, err)
		refused, done := make(chan struct{}, 1), make(chan error, 1)
		r := asked()
		r.Refused = func(time.Duration) { refused <- struct{}{} }
		go func() {
			_, err := waiter.Lock(context.Background(), r, true)
			done <- err
		}()
		<-refused
		require.NoError(t, waiter.Close(t.Context()))
		require.Error(t, <-done)
	}
}

// Sessions are watched between commands, and commands need not wait for that.
func TestWatchedSessionServesAtOnce(t *testing.T) {
	d, server := prepared(t)
	s := d.session(t, advisory{d.t})
	for range 50 {
		<-time.After(quiet + time.Millisecond)
		require.NoError(t, s.Ping(t.Context()))
	}
	server.Exec("SELECT pg_terminate_backend($1)", s.pid)
	select {
	case <-s.Broken():
	case <-time.After(10 * time.Second):
		t.Fatal("not noticed")
	}
}
