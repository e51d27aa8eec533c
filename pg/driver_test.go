package pg

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/option"
	"github.com/fencelock/fencelock/internal/testserver"
)

// driven returns the driver of leases on a database of the test's own.
func driven(t *testing.T, set ...func(*pgxpool.Config)) (*leases, *testserver.Postgres) {
	t.Helper()
	server := testserver.SharedPostgres(t).NewDatabase(t)
	config, err := pgxpool.ParseConfig(server.URL())
	require.NoError(t, err)
	for _, f := range set {
		f(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	require.NoError(t, Migrate(t.Context(), pool))
	db, err := openDatabase(pool, option.Set{})
	require.NoError(t, err)
	return newLeases(db), server
}

func request(key string, ttl time.Duration) lease.Request {
	var b [16]byte
	rand.Read(b[:])
	return lease.Request{Key: key, Attempt: hex.EncodeToString(b[:]), TTL: ttl, Tokens: func() int { return 10 }}
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func blocked(t *testing.T, s *testserver.Postgres, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		return len(s.Strings("SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")) == n
	}, 20*time.Second, 5*time.Millisecond, "%d sessions wait for a lock", n)
}

func TestReplayOfAnAttemptIsTheSameGrant(t *testing.T) {
	d, server := driven(t)
	r := request("k", time.Minute)
	first, err := d.Try(soon(t), r)
	require.NoError(t, err)
	until := server.Strings("SELECT expires_at FROM fencelock_locks")
	again, err := d.Try(soon(t), r)
	require.NoError(t, err)
	require.Equal(t, [2]fencelock.Token{first.First, first.Last}, [2]fencelock.Token{again.First, again.Last})
	require.Equal(t, until, server.Strings("SELECT expires_at FROM fencelock_locks"), "the deadline is not moved")
	require.WithinDuration(t, first.Since, again.Since, time.Second, "and the holder knows")
	_, err = d.Try(soon(t), request("k", time.Minute))
	var held *fencelock.HeldError
	require.ErrorAs(t, err, &held)
	require.Greater(t, held.For, 30*time.Second)
	require.LessOrEqual(t, held.For, time.Minute)

	require.NoError(t, d.Release(soon(t), r, first))
	require.NoError(t, d.Release(soon(t), r, first), "a release whose reply was lost is repeated")
	_, err = d.Try(soon(t), r)
	require.ErrorIs(t, err, fencelock.ErrLost, "a duplicate that arrives after its release")
}

// A second look at a row of which the counter moved on gives no token that
// another has had.
func TestReplayAfterAnotherHasMinted(t *testing.T) {
	d, _ := driven(t)
	r := request("k", time.Minute)
	cycle, err := d.Try(soon(t), request("k", time.Minute))
	require.NoError(t, err)
	require.NoError(t, d.Undo(soon(t), lease.Request{Key: "k", Attempt: request("k", 0).Attempt}))
	_ = cycle
	require.ErrorIs(t, second(d.Try(soon(t), r)), fencelock.ErrHeld)
	other, err := nextOfRow(soon(t), d.db, "k")
	require.NoError(t, err)
	require.Greater(t, other, cycle.Last)

	r = request("l", time.Minute)
	got, err := d.Try(soon(t), r)
	require.NoError(t, err)
	other, err = nextOfRow(soon(t), d.db, "l")
	require.NoError(t, err)
	again, err := d.Try(soon(t), r)
	require.NoError(t, err)
	require.Equal(t, got.First, again.First)
	require.Less(t, again.Last, other)
}

func second[T any](_ T, err error) error { return err }

func TestDeadAttemptsStayDead(t *testing.T) {
	d, server := driven(t)
	var dead []lease.Request
	for range 40 {
		r := request("k", time.Minute)
		require.NoError(t, d.Undo(soon(t), r))
		require.NoError(t, d.Undo(soon(t), r), "it may be repeated")
		dead = append(dead, r)
	}
	n, err := Prune(soon(t), d.db.pool)
	require.NoError(t, err)
	require.Zero(t, n, "their traces are not old")
	require.Equal(t, []string{"32"}, server.Strings("SELECT cardinality(dead) FROM fencelock_locks"))
	for _, r := range dead[8:] {
		require.ErrorIs(t, second(d.Try(soon(t), r)), fencelock.ErrLost)
	}
	r := request("k", time.Minute)
	g, err := d.Try(soon(t), r)
	require.NoError(t, err)
	require.NoError(t, d.Undo(soon(t), dead[0]), "another's hold is left alone")
	require.ErrorIs(t, second(d.Try(soon(t), request("k", time.Minute))), fencelock.ErrHeld)
	require.NoError(t, d.Undo(soon(t), r))
	require.ErrorIs(t, d.Release(soon(t), r, g), fencelock.ErrLost)
}

// An attempt that waits for the row, or for an INSERT of another, finds itself
// undone when its turn comes.
func TestUndoReachesAnAttemptThatWaits(t *testing.T) {
	for _, known := range []bool{false, true} {
		d, server := driven(t)
		if known {
			require.NoError(t, d.Undo(soon(t), request("k", 0)))
		}
		tx, err := d.db.pool.Begin(soon(t))
		require.NoError(t, err)
		undone := request("k", time.Minute)
		args := []any{keyArg("k"), "k", undone.Attempt}
		var told *bool
		require.NoError(t, tx.QueryRow(soon(t), d.db.t.sql("undo.sql"), args...).Scan(&told))
		result := make(chan error, 1)
		go func() {
			_, err := d.Try(soon(t), undone)
			result <- err
		}()
		blocked(t, server, 1)
		require.NoError(t, tx.Commit(soon(t)))
		require.ErrorIs(t, <-result, fencelock.ErrLost)
		require.Equal(t, []string{""}, server.Strings("SELECT owner FROM fencelock_locks"))
	}
}

// S5: the holder counts from the sending, so that a wait for the row does not make
// its hold longer than the lease.
func TestAWaitForTheRowShortensTheHold(t *testing.T) {
	d, server := driven(t)
	require.NoError(t, d.Undo(soon(t), request("k", 0)))
	free := lockedRow(t, d, server)
	type result struct {
		lease.Grant
		err error
	}
	done := make(chan result, 1)
	const ttl = 10 * time.Second
	go func() {
		g, err := d.Try(soon(t), request("k", ttl))
		done <- result{g, err}
	}()
	waited := free(500 * time.Millisecond)
	got := <-done
	require.NoError(t, got.err)
	require.True(t, got.Since.Before(waited), "the hold counts from before the wait")
	const late = "SELECT expires_at >= $1::timestamptz FROM fencelock_locks"
	require.Equal(t, []string{"t"}, server.Strings(late, got.Since.Add(ttl).Format(time.RFC3339Nano)))
}

// S5: a grant that waited for longer than its TTL is not given to anybody.
func TestAWaitForTheRowLongerThanTheTTL(t *testing.T) {
	d, server := driven(t)
	l, err := NewLease(d.db.pool, fencelock.TTL(time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close(soon(t)) })
	first, err := l.Acquire(soon(t), "k")
	require.NoError(t, err)
	require.NoError(t, first.Release(soon(t)))
	free := lockedRow(t, d, server)
	type result struct {
		fencelock.Lock
		err   error
		valid time.Duration
	}
	done := make(chan result, 1)
	go func() {
		lock, err := l.Acquire(soon(t), "k")
		r := result{Lock: lock, err: err}
		if err == nil {
			r.valid = lock.Valid()
		}
		done <- r
	}()
	free(1500 * time.Millisecond)
	got := <-done
	require.NoError(t, got.err)
	require.Positive(t, got.valid)
	require.Greater(t, got.Token(), first.Token())
	require.NoError(t, got.Release(soon(t)))
}

// lockedRow locks every row; the function that it returns waits until somebody
// waits for one, and for longer, lets go, and says when.
func lockedRow(t *testing.T, d *leases, server *testserver.Postgres) func(longer time.Duration) time.Time {
	t.Helper()
	tx, err := d.db.pool.Begin(soon(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	_, err = tx.Exec(soon(t), "SELECT FROM fencelock_locks FOR UPDATE")
	require.NoError(t, err)
	return func(longer time.Duration) time.Time {
		blocked(t, server, 1)
		_, err := tx.Exec(soon(t), "SELECT pg_sleep($1)", longer.Seconds())
		require.NoError(t, err)
		now := time.Now()
		require.NoError(t, tx.Commit(soon(t)))
		return now
	}
}

// S4: only the holder renews, and nobody else's row is touched.
func TestRenewalComparesTheOwner(t *testing.T) {
	d, server := driven(t)
	mine, taken, gone, expired := request("mine", time.Minute), request("taken", time.Minute), request("gone", time.Minute), request("expired", time.Minute)
	rs := []lease.Request{mine, taken, gone, expired, request("never", time.Minute)}
	gs := make([]lease.Grant, len(rs))
	for i, r := range rs[:4] {
		var err error
		gs[i], err = d.Try(soon(t), r)
		require.NoError(t, err)
	}
	require.NoError(t, d.Release(soon(t), taken, gs[1]))
	require.NoError(t, second(d.Try(soon(t), request("taken", time.Minute))))
	server.Exec("UPDATE fencelock_locks SET owner = NULL WHERE name = 'gone'")
	server.Exec("UPDATE fencelock_locks SET expires_at = now() - interval '1 ms' WHERE name = 'expired'")
	before := server.Strings("SELECT name, expires_at, owner FROM fencelock_locks WHERE name <> 'mine' ORDER BY name")
	errs, sent := make([]error, len(rs)), time.Now()
	d.Renew(soon(t), rs, gs, errs)
	require.NoError(t, errs[0])
	require.False(t, gs[0].Since.Before(sent))
	for i, reason := range []fencelock.Reason{1: fencelock.Taken, 2: fencelock.Deleted, 3: fencelock.Expired, 4: fencelock.Deleted} {
		if i > 0 {
			var lost *fencelock.LostError
			require.ErrorAs(t, errs[i], &lost, rs[i].Key)
			require.Equal(t, reason, lost.Reason, rs[i].Key)
		}
	}
	require.Equal(t, before, server.Strings("SELECT name, expires_at, owner FROM fencelock_locks WHERE name <> 'mine' ORDER BY name"))
}

func TestALockedRowDelaysNoOtherRenewal(t *testing.T) {
	d, _ := driven(t)
	rs, gs := make([]lease.Request, 2*batch+7), make([]lease.Grant, 2*batch+7)
	for i := range rs {
		rs[i] = request("k"+string(rune('A'+i%26))+time.Duration(i).String(), time.Minute)
	}
	tx, err := d.db.pool.Begin(soon(t))
	require.NoError(t, err)
	defer tx.Rollback(context.Background()) //nolint:errcheck // nothing to keep
	for i, r := range rs {
		if i%100 == 0 || i >= 2*batch {
			gs[i], err = d.Try(soon(t), r)
			require.NoError(t, err)
		}
	}
	_, err = tx.Exec(soon(t), "SELECT FROM fencelock_locks WHERE key = $1 FOR UPDATE", keyArg(rs[0].Key))
	require.NoError(t, err)
	errs, start := make([]error, len(rs)), time.Now()
	d.Renew(soon(t), rs, gs, errs)
	require.Less(t, time.Since(start), 10*time.Second)
	require.ErrorIs(t, errs[0], errBusy, "unknown, to be tried again")
	for i, err := range errs[1:] {
		if i++; i%100 == 0 || i >= 2*batch {
			require.NoError(t, err, i)
		} else {
			require.ErrorIs(t, err, fencelock.ErrLost, i)
		}
	}
}

// R22's kind: one client with its clock a year ahead spoils nothing, and a
// counter at the end of its range says so.
func TestTokensFarAhead(t *testing.T) {
	d, server := driven(t)
	far := request("k", time.Minute)
	for _, least := range []fencelock.Token{fencelock.Token(time.Now().Add(48 * time.Hour).UnixMicro()), math.MaxInt64 - 1, math.MaxInt64} {
		far.Min = least
		err := second(d.Try(soon(t), far))
		require.Error(t, err)
		require.True(t, lease.IsDefinite(err))
		require.NotErrorIs(t, err, fencelock.ErrHeld)
		_, err = mint(soon(t), d.db.pool, d.db.t, "k", "", least, 1)
		require.Error(t, err)
		require.True(t, lease.IsDefinite(err))
	}
	require.Empty(t, server.Strings("SELECT 1 FROM fencelock_locks"), "and nothing is written")
	server.Exec("INSERT INTO fencelock_locks (key, name, token) VALUES ($1, 'k', 9223372036854775807)", keyArg("k"))
	require.ErrorIs(t, second(d.Try(soon(t), request("k", time.Minute))), fencelock.ErrRegressed)
	_, err := mint(soon(t), d.db.pool, d.db.t, "k", "", 0, 1)
	require.ErrorIs(t, err, fencelock.ErrRegressed)
}

// Blocks are made of microseconds that have passed, so the counter does not run
// ahead of the clock.
func TestBlocksDoNotRunAheadOfTheClock(t *testing.T) {
	d, server := driven(t)
	var last fencelock.Token
	for i := range 200 {
		r := request("k", time.Minute)
		r.Tokens = func() int { return 1 << 20 }
		g, err := d.Try(soon(t), r)
		require.NoError(t, err)
		require.Greater(t, g.First, last)
		require.GreaterOrEqual(t, g.Last, g.First)
		if i == 0 {
			require.Equal(t, g.First, g.Last, "with no counter, a block of one")
		}
		require.NoError(t, d.Release(soon(t), r, g))
		m, err := mint(soon(t), d.db.pool, d.db.t, "k", "", g.Last+5, 1000)
		require.NoError(t, err)
		require.Greater(t, m.first, g.Last+5)
		last = m.last
	}
	ahead := server.Strings("SELECT token <= extract(epoch FROM clock_timestamp()) * 1000000 FROM fencelock_locks")
	require.Equal(t, []string{"t"}, ahead)
}

// S13: under a stricter default, a collision is the server's "try again", and no
// caller sees it.
func TestCollisionsAreTriedAgain(t *testing.T) {
	for _, level := range []string{"repeatable read", "serializable"} {
		d, server := driven(t, func(c *pgxpool.Config) {
			c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
		})
		require.NoError(t, d.Undo(soon(t), request("k", 0)))
		held := request("held", time.Minute)
		g, err := d.Try(soon(t), held)
		require.NoError(t, err)
		for what, f := range map[string]func() error{
			"Try":     func() error { return second(d.Try(soon(t), request("k", time.Minute))) },
			"Undo":    func() error { return d.Undo(soon(t), request("k", time.Minute)) },
			"Release": func() error { return d.Release(soon(t), held, g) },
			"mint":    func() error { return second(nextOfRow(soon(t), d.db, "k")) },
		} {
			tx, err := d.db.pool.Begin(soon(t))
			require.NoError(t, err)
			_, err = tx.Exec(soon(t), "UPDATE fencelock_locks SET name = name")
			require.NoError(t, err)
			done := make(chan error, 1)
			go func() { done <- f() }()
			blocked(t, server, 1) // its snapshot is older than our commit
			require.NoError(t, tx.Commit(soon(t)))
			require.NoError(t, <-done, "%s under %s", what, level)
			server.Exec("UPDATE fencelock_locks SET owner = NULL WHERE name = 'k'")
		}
	}
}
