package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/testserver"
)

func newDriver(t *testing.T) (*leases, *testserver.MariaDB) {
	s := testserver.SharedMariaDB(t).NewDatabase(t)
	db, err := sql.Open("mysql", s.DSN())
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	require.NoError(t, Migrate(t.Context(), db))
	l, err := NewLease(db)
	require.NoError(t, err)
	return l.style.(*leases), s
}

func asks(attempt string) lease.Request {
	return lease.Request{Key: "k", Attempt: attempt, TTL: time.Minute, Tokens: func() int { return 100 }}
}

// An attempt whose reply was lost gets no token that somebody else has had
// meanwhile.
func TestReplayAfterAnotherHasMinted(t *testing.T) {
	d, s := newDriver(t)
	mine := asks("a")
	got, err := d.Try(t.Context(), mine)
	require.NoError(t, err)
	db, err := sql.Open("mysql", s.DSN())
	require.NoError(t, err)
	defer db.Close()
	tokens, err := NewTokens(db, fencelock.Prefix("")) // the driver's names have their prefix already
	require.NoError(t, err)
	other, err := tokens.Next(t.Context(), mine.Key)
	require.NoError(t, err)
	require.Greater(t, other, got.Last)
	again, err := d.Try(t.Context(), mine)
	require.NoError(t, err)
	require.Equal(t, got.First, again.First)
	require.Less(t, again.Last, other)
}

// An attempt that was undone cannot come back, though its statement reaches the
// server later than the undoing, with or without a row.
func TestAnUndoneAttemptCannotComeBack(t *testing.T) {
	ctx := t.Context()
	d, s := newDriver(t)
	for i := range 3 {
		late := fmt.Sprint("a", i)
		require.NoError(t, d.Undo(ctx, asks(late)))
		require.NoError(t, d.Undo(ctx, asks(late)), "repeated")
		_, err := d.Try(ctx, asks(late))
		require.ErrorIs(t, err, fencelock.ErrLost)
		g, err := d.Try(ctx, asks(fmt.Sprint("b", i)))
		require.NoError(t, err)
		require.NoError(t, d.Undo(ctx, asks(late)), "leaves the next holder alone")
		gs, errs := []lease.Grant{g}, []error{nil}
		d.Renew(ctx, []lease.Request{asks(fmt.Sprint("b", i))}, gs, errs)
		require.NoError(t, errs[0])
		require.NoError(t, d.Undo(ctx, asks(fmt.Sprint("b", i))), "frees it")
	}
	for i := range 40 { // the list is bounded, and keeps the last
		require.NoError(t, d.Undo(ctx, asks(fmt.Sprintf("%032d", i))))
	}
	for _, i := range []int{39, 8} {
		_, err := d.Try(ctx, asks(fmt.Sprintf("%032d", i)))
		require.ErrorIs(t, err, fencelock.ErrLost, i)
	}
	require.Equal(t, []string{"1055"}, s.Strings("SELECT LENGTH(dead) FROM fencelock_locks"))
}

func TestAnAttemptIsGrantedOnce(t *testing.T) {
	ctx := t.Context()
	d, _ := newDriver(t)
	for range 3 {
		g, err := d.Try(ctx, asks("a"))
		require.NoError(t, err)
		again, err := d.Try(ctx, asks("a"))
		require.NoError(t, err)
		require.Equal(t, g.First, again.First)
		require.LessOrEqual(t, again.Last, g.Last)
		require.WithinDuration(t, g.Since, again.Since, time.Second, "the deadline is not moved")
		_, err = d.Try(ctx, asks("b"))
		require.ErrorIs(t, err, fencelock.ErrHeld)
		require.NoError(t, d.Release(ctx, asks("a"), g))
		require.NoError(t, d.Release(ctx, asks("a"), g), "the reply to the first was lost")
		_, err = d.Try(ctx, asks("a"))
		require.ErrorIs(t, err, fencelock.ErrLost, "it is over")
		next, err := d.Try(ctx, asks("b"))
		require.NoError(t, err)
		require.Greater(t, next.First, g.Last)
		require.LessOrEqual(t, next.Last-next.First, fencelock.Token(99))

		// S4: only the holder renews and releases.
		gs, errs := []lease.Grant{g, next}, []error{nil, nil}
		d.Renew(ctx, []lease.Request{asks("a"), asks("b")}, gs, errs)
		var lost *fencelock.LostError
		require.ErrorAs(t, errs[0], &lost)
		require.Equal(t, fencelock.Taken, lost.Reason)
		require.NoError(t, errs[1])
		require.ErrorIs(t, d.Release(ctx, asks("c"), g), fencelock.ErrLost)
		require.NoError(t, d.Release(ctx, asks("b"), next))
		_, err = d.exec(ctx, "DELETE FROM "+d.locks)
		require.NoError(t, err)
	}
}

// Blocks are made of microseconds that have passed.
func TestBlocksDoNotReachIntoTheFuture(t *testing.T) {
	ctx := t.Context()
	d, _ := newDriver(t)
	var last fencelock.Token
	for i := range 200 {
		r := asks(fmt.Sprint(i, "x"))
		r.Tokens = func() int { return 1 << 20 } // more than a block can have
		g, err := d.Try(ctx, r)
		require.NoError(t, err)
		require.Greater(t, g.First, last)
		require.Less(t, g.Last-g.First, fencelock.Token(maxBlock))
		last = g.Last
		s, err := d.look(ctx, d.pool, d.request(r))
		require.NoError(t, err)
		require.LessOrEqual(t, int64(last), s.now)
		require.NoError(t, d.Release(ctx, r, g))
	}
}

func TestServerErrorsAreRecognised(t *testing.T) {
	for want, err := range map[int]error{
		0:    nil,
		1213: &driver.MySQLError{Number: 1213},
		1205: fmt.Errorf("wrapped: %w", &driver.MySQLError{Number: 1205}),
		1020: errors.Join(context.Canceled, &driver.MySQLError{Number: 1020}),
		1146: errors.New("Error 1146 (42S02): Table 'a.b' doesn't exist"),
		1049: errors.New("ERROR 1049 (42000): Unknown database"),
	} {
		require.Equal(t, want, number(err))
	}
	for _, err := range []error{errors.New("Error: no"), errors.New("error "), context.Canceled, sql.ErrNoRows, driver.ErrInvalidConn} {
		require.Zero(t, number(err), err)
	}
}

// S15: neither is an answer.
// What found no server has left nothing there, so that nobody tries to clean up.
func TestWhereNoServerIsNothingIsLeft(t *testing.T) {
	db, err := sql.Open("mysql", "u@tcp(127.0.0.1:1)/x")
	require.NoError(t, err)
	defer db.Close()
	l, err := NewLease(db)
	require.NoError(t, err)
	_, err = l.style.Try(t.Context(), asks("a"))
	require.Error(t, err)
	require.True(t, lease.IsDefinite(err), err)
}

func TestWhatGetLockSays(t *testing.T) {
	require.NoError(t, granted(sql.NullInt64{Int64: 1, Valid: true}))
	require.ErrorIs(t, granted(sql.NullInt64{Int64: 0, Valid: true}), fencelock.ErrHeld)
	for _, none := range []sql.NullInt64{{}, {Int64: -1, Valid: true}} {
		require.ErrorIs(t, granted(none), errNoAnswer, "%v", none)
	}
}

// What may still have a lock is ended at the server, whatever the network does.
func TestCloseEndsASessionThatTheServerBelievesIn(t *testing.T) {
	server := testserver.SharedMariaDB(t).NewDatabase(t)
	pool := func(dsn string) *sql.DB {
		db, err := sql.Open("mysql", dsn)
		require.NoError(t, err)
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	near := pool(server.DSN())
	require.NoError(t, Migrate(t.Context(), near))
	for what, open := range map[string]func(*sql.DB, ...fencelock.Option) (*Locker, error){"advisory": NewAdvisory, "row": NewRow} {
		p := testserver.NewProxy(t, server.Addr())
		l, err := open(pool(server.Via(p.Addr())), fencelock.TTL(time.Minute))
		require.NoError(t, err)
		d := l.style.(*sessions)
		c, err := d.connect(t.Context())
		require.NoError(t, err)
		r := asks("a")
		r.Key = "fencelock/" + what
		s := d.wrap(c)
		_, err = s.Lock(t.Context(), r, false)
		require.NoError(t, err)
		other, err := open(near)
		require.NoError(t, err)
		_, err = other.TryAcquire(t.Context(), what)
		require.ErrorIs(t, err, fencelock.ErrHeld)

		p.Drop(testserver.Both) // the server does not see that the connection is closed
		d.pool.db = near
		require.NoError(t, s.Close(t.Context()))
		lock, err := other.TryAcquire(t.Context(), what)
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
		require.NoError(t, other.Close(t.Context()))
	}
}
