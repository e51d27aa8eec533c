package session

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errNet = errors.New("connection reset")
	bg     = context.Background()
)

const ttl = time.Minute

// database hands out fake sessions and remembers them.
type database struct {
	opened []*fake
	lock   func(f *fake) error // what the next Locks answer
}

// fake is a session whose answers a test chooses.
type fake struct {
	db     *database
	calls  []string
	pings  atomic.Int32
	unlock error
	ping   chan error // what pings answer; nil: nil at once
	close  error
	broken chan struct{}
	once   sync.Once
}

func (f *fake) Lock(context.Context, lease.Request, bool) (lease.Grant, error) {
	f.calls = append(f.calls, "lock")
	if f.db.lock != nil {
		if err := f.db.lock(f); err != nil {
			return lease.Grant{}, err
		}
	}
	return lease.Grant{First: 1, Last: 1, Since: time.Now()}, nil
}

func (f *fake) Ping(context.Context) error {
	f.pings.Add(1)
	if f.ping == nil {
		return nil
	}
	select {
	case err := <-f.ping:
		return err
	case <-f.broken:
		return errNet
	}
}

func (f *fake) Unlock(context.Context, lease.Request) error {
	f.calls = append(f.calls, "unlock")
	return f.unlock
}

func (f *fake) Broken() <-chan struct{} { return f.broken }

func (f *fake) Close(ctx context.Context) error {
	f.calls = append(f.calls, "close")
	f.once.Do(func() { close(f.broken) })
	return errors.Join(f.close, ctx.Err())
}

func newDriver() (*Driver, *database) {
	db := &database{}
	return New(ttl, func(ctx context.Context) (Session, error) {
		f := &fake{db: db, broken: make(chan struct{})}
		db.opened = append(db.opened, f)
		return f, ctx.Err()
	}), db
}

func request(attempt string) lease.Request {
	return lease.Request{Key: "k", Attempt: attempt, TTL: ttl}
}

func try(t *testing.T, d *Driver, attempt string) lease.Grant {
	t.Helper()
	g, err := d.Try(bg, request(attempt))
	require.NoError(t, err)
	return g
}

func release(d *Driver, attempt string) error { return d.Release(bg, request(attempt), lease.Grant{}) }

func renew(ctx context.Context, d *Driver, attempt string) (lease.Grant, error) {
	gs, errs := make([]lease.Grant, 1), make([]error, 1)
	d.Renew(ctx, []lease.Request{request(attempt)}, gs, errs)
	return gs[0], errs[0]
}

func TestASessionServesAgainAfterACleanRelease(t *testing.T) {
	d, db := newDriver()
	g := try(t, d, "a")
	require.Equal(t, ttl, g.TTL)
	require.Equal(t, db.opened[0].Broken(), g.Done)
	try(t, d, "b")
	require.Len(t, db.opened, 2, "one holds one lock")
	require.NoError(t, release(d, "a"))
	require.NoError(t, release(d, "a"), "a repeated release finds it done")
	try(t, d, "c")
	require.Len(t, db.opened, 2)
	require.Equal(t, []string{"lock", "unlock", "lock"}, db.opened[0].calls)
}

func TestARefusalLeavesTheSessionClean(t *testing.T) {
	d, db := newDriver()
	db.lock = func(*fake) error { return fencelock.ErrHeld }
	for range 2 {
		_, err := d.Try(bg, request("a"))
		require.ErrorIs(t, err, fencelock.ErrHeld)
		require.NoError(t, d.Undo(bg, request("a")))
	}
	require.Len(t, db.opened, 1)
	require.NotContains(t, db.opened[0].calls, "close")
}

// S8
func TestASessionInDoubtIsEndedAndNeverUsedAgain(t *testing.T) {
	for what, fail := range map[string]func(*Driver, *database){
		"lock": func(d *Driver, db *database) {
			db.lock = func(*fake) error { return errNet }
			_, err := d.Try(bg, request("a"))
			require.ErrorIs(t, err, errNet)
			require.False(t, lease.IsDefinite(err))
			db.lock = nil
			require.NoError(t, d.Undo(bg, request("a")))
		},
		"unlock": func(d *Driver, db *database) {
			try(t, d, "a")
			db.opened[0].unlock = errNet
			require.NoError(t, release(d, "a"), "ended for certain, so the lock is given up")
		},
		"loss": func(d *Driver, db *database) {
			try(t, d, "a")
			require.NoError(t, d.Undo(bg, request("a")))
		},
	} {
		t.Run(what, func(t *testing.T) {
			d, db := newDriver()
			fail(d, db)
			require.Contains(t, db.opened[0].calls, "close")
			try(t, d, "b")
			require.Len(t, db.opened, 2)
			require.Empty(t, d.idle)
			require.Len(t, d.uses, 1)
		})
	}
}

func TestNothingIsOverUntilTheSessionHasEnded(t *testing.T) {
	d, db := newDriver()
	try(t, d, "a")
	f := db.opened[0]
	f.unlock, f.close = errNet, errors.New("no other connection to be had")
	require.ErrorIs(t, release(d, "a"), f.close)
	require.ErrorIs(t, release(d, "a"), f.close)
	require.ErrorIs(t, d.Undo(bg, request("a")), f.close)
	f.close = nil
	require.NoError(t, release(d, "a"))
	require.Empty(t, d.uses)
	require.Equal(t, []string{"lock", "unlock", "close", "close", "close", "close"}, f.calls, "unlock is not tried on a session in doubt")
}

func TestAReleaseOfALostLockSaysSo(t *testing.T) {
	d, db := newDriver()
	try(t, d, "a")
	f := db.opened[0]
	f.unlock, f.close = &fencelock.LostError{Reason: fencelock.SessionGone}, errNet
	require.ErrorIs(t, release(d, "a"), errNet, "it may still stand at the server")
	f.close = nil
	require.ErrorIs(t, release(d, "a"), fencelock.ErrLost)
	require.Empty(t, d.uses)
}

func TestAnIdleSessionThatTheServerEndedIsReplaced(t *testing.T) {
	t.Run("noticed", func(t *testing.T) {
		d, db := newDriver()
		try(t, d, "a")
		require.NoError(t, release(d, "a"))
		db.opened[0].once.Do(func() { close(db.opened[0].broken) })
		try(t, d, "b")
		require.Len(t, db.opened, 2)
		require.Equal(t, []string{"lock", "unlock", "close"}, db.opened[0].calls)
	})
	t.Run("unnoticed", func(t *testing.T) {
		d, db := newDriver()
		try(t, d, "a")
		require.NoError(t, release(d, "a"))
		db.lock = func(f *fake) error {
			if f == db.opened[0] {
				return errNet
			}
			return nil
		}
		try(t, d, "b")
		require.Len(t, db.opened, 2)
		require.Equal(t, []string{"lock", "unlock", "lock", "close"}, db.opened[0].calls)
		require.NoError(t, release(d, "b"))
		require.Contains(t, db.opened[1].calls, "unlock")
	})
}

func TestRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, db := newDriver()
		try(t, d, "a")
		sent := time.Now()
		g, err := renew(bg, d, "a")
		require.NoError(t, err)
		require.Equal(t, sent, g.Since)
		require.Equal(t, ttl, g.TTL)

		f := db.opened[0]
		f.ping = make(chan error)
		short, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		sent = time.Now()
		_, err = renew(short, d, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, fencelock.ErrLost, "the network may be back in time")
		go func() { f.ping <- nil }()
		g, err = renew(bg, d, "a")
		require.NoError(t, err)
		require.Equal(t, sent, g.Since, "the same ping has been answered")

		go func() { f.ping <- errNet }()
		_, err = renew(bg, d, "a")
		require.ErrorIs(t, err, fencelock.ErrLost)
		require.ErrorIs(t, err, errNet)
		require.NoError(t, d.Undo(bg, request("a")))
		_, err = renew(bg, d, "a")
		require.Error(t, err)
	})
}

func TestAReleaseDoesNotDisturbAPingOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, db := newDriver()
		try(t, d, "a")
		f := db.opened[0]
		f.ping = make(chan error)
		short, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		_, _ = renew(short, d, "a")
		time.AfterFunc(time.Second, func() { f.ping <- nil })
		require.NoError(t, release(d, "a"))
		require.Equal(t, []string{"lock", "unlock"}, f.calls)

		try(t, d, "b")
		short, cancel = context.WithTimeout(bg, time.Second)
		defer cancel()
		_, _ = renew(short, d, "b")
		short, cancel = context.WithTimeout(bg, time.Second)
		defer cancel()
		require.ErrorIs(t, d.Release(short, request("b"), lease.Grant{}), context.DeadlineExceeded)
		require.NoError(t, release(d, "b"), "ended")
		require.Empty(t, d.uses)
	})
}

// A10
func TestNothingIsSentForAHoldThatIsGivenUp(t *testing.T) {
	d, db := newDriver()
	try(t, d, "a")
	db.opened[0].close = errNet
	require.Error(t, d.Undo(bg, request("a")))
	_, err := renew(bg, d, "a")
	require.Error(t, err)
	require.Zero(t, db.opened[0].pings.Load())
}

func TestSessionsThatAreNotNeededAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, db := newDriver()
		for _, a := range []string{"a", "b"} {
			try(t, d, a)
		}
		require.NoError(t, release(d, "b"))
		require.NoError(t, release(d, "a"))
		for range 4 { // the last one used serves again and again
			time.Sleep(ttl / 6)
			try(t, d, "c")
			require.NoError(t, release(d, "c"))
		}
		require.Equal(t, "close", db.opened[1].calls[len(db.opened[1].calls)-1])
		require.NotContains(t, db.opened[0].calls, "close")
		require.NoError(t, d.Idle(bg))
		require.Contains(t, db.opened[0].calls, "close")
		require.Empty(t, d.idle)
	})
}

func TestWhatTheServerMustHaveEndedIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, db := newDriver()
		try(t, d, "a")
		db.opened[0].close = errNet
		require.Error(t, d.Undo(bg, request("a")))
		require.NoError(t, d.Idle(bg))
		require.Len(t, d.uses, 1)
		time.Sleep(ttl + 1)
		require.NoError(t, d.Idle(bg))
		require.Empty(t, d.uses)
	})
}
