package fencelock_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fencelock/fencelock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// foreign is a Locker of somebody else's, whose Locks have no AfterLost.
type foreign struct {
	lost     chan struct{}
	err      error
	released context.Context
	name     string
}

func (f *foreign) Acquire(_ context.Context, name string, _ ...fencelock.Option) (fencelock.Lock, error) {
	f.name = name
	return f, nil
}

func (f *foreign) TryAcquire(ctx context.Context, name string, opts ...fencelock.Option) (fencelock.Lock, error) {
	return f.Acquire(ctx, name, opts...)
}
func (f *foreign) Name() string           { return f.name }
func (f *foreign) Token() fencelock.Token { return 7 }
func (f *foreign) Lost() <-chan struct{}  { return f.lost }
func (f *foreign) Err() error             { return f.err }
func (f *foreign) Valid() time.Duration   { return time.Second }
func (f *foreign) Release(ctx context.Context) error {
	f.released = ctx
	return f.err
}

func TestWithLockOnAnotherPackagesLocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &foreign{lost: make(chan struct{})}
		type key struct{}
		ctx := context.WithValue(t.Context(), key{}, "v")
		require.NoError(t, fencelock.WithLock(ctx, f, "a", func(ctx context.Context, tok fencelock.Token) error {
			require.Equal(t, fencelock.Token(7), tok)
			require.Equal(t, "v", ctx.Value(key{}))
			return nil
		}))
		require.Equal(t, "v", f.released.Value(key{}), "detached from the end of the caller's ctx, not from its values")
		_, bounded := f.released.Deadline()
		require.True(t, bounded)

		err := fencelock.WithLock(ctx, f, "a", func(ctx context.Context, _ fencelock.Token) error {
			f.err = &fencelock.LostError{Name: "a", Token: 7, Reason: fencelock.SessionGone}
			close(f.lost)
			<-ctx.Done()
			require.Equal(t, f.err, context.Cause(ctx))
			return context.Cause(ctx)
		})
		require.Same(t, f.err, err, "one loss is told once")
	})
}

// However fn ends, the lock is released, and the end goes on.
func TestWithLockReleasesOnPanicAndGoexit(t *testing.T) {
	f := &foreign{lost: make(chan struct{})}
	require.PanicsWithValue(t, "x", func() {
		_ = fencelock.WithLock(t.Context(), f, "a", func(context.Context, fencelock.Token) error { panic("x") })
	})
	require.NotNil(t, f.released)

	f.released = nil
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = fencelock.WithLock(t.Context(), f, "a", func(context.Context, fencelock.Token) error {
			runtime.Goexit()
			return nil
		})
		t.Error("Goexit was stopped")
	})
	wg.Wait()
	require.NotNil(t, f.released)
}

func TestWithLockJoinsTheErrors(t *testing.T) {
	work, loss := errors.New("work"), &fencelock.LostError{Name: "a", Reason: fencelock.Expired}
	f := &foreign{lost: make(chan struct{}), err: loss}
	err := fencelock.WithLock(t.Context(), f, "a", func(context.Context, fencelock.Token) error { return work })
	require.ErrorIs(t, err, work)
	require.ErrorIs(t, err, fencelock.ErrLost)
}

func TestErrorsMatchTheirConditionAndNoOther(t *testing.T) {
	conditions := []error{
		fencelock.ErrHeld, fencelock.ErrLost, fencelock.ErrStale, fencelock.ErrRegressed, fencelock.ErrClosed,
	}
	cause := errors.New("cause")
	for _, c := range []struct {
		err, want error
		text      string
	}{
		{&fencelock.HeldError{Name: "a"}, fencelock.ErrHeld, `fencelock: "a" is held by another`},
		{
			&fencelock.HeldError{Name: "a", For: time.Second, Cause: cause}, fencelock.ErrHeld,
			`fencelock: "a" is held by another (for 1s unless renewed): cause`,
		},
		{
			&fencelock.LostError{Name: "a", Token: 3, Reason: fencelock.Taken, Cause: cause}, fencelock.ErrLost,
			`fencelock: "a" (token 3) is no longer held: taken by another: cause`,
		},
		{
			&fencelock.StaleError{Name: "a", Have: 3, Want: 5}, fencelock.ErrStale,
			`fencelock: "a": token 3 is stale, the fence admits 5 and above`,
		},
	} {
		require.EqualError(t, c.err, c.text)
		for _, condition := range conditions {
			require.Equal(t, condition == c.want, errors.Is(c.err, condition), "%v is %v", c.err, condition)
		}
	}
	require.ErrorIs(t, &fencelock.HeldError{Cause: cause}, cause)
	require.ErrorIs(t, &fencelock.LostError{Cause: cause}, cause)
}
