// Package testlock is what the tests of all backends say again and again: take a
// lock, give it up, wait for a state, each failing the test if it cannot, and
// none for longer than a slow machine needs.
package testlock

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
)

const (
	patience = 30 * time.Second // of calls
	state    = 20 * time.Second // until a state is reached
	look     = 5 * time.Millisecond
)

// Long is a ctx that outlasts whatever a slow machine makes of the test.
func Long(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	t.Cleanup(cancel)
	return ctx
}

// Open takes what a constructor returns; the Locker is closed with the test.
func Open[L interface {
	Close(ctx context.Context) error
}](t testing.TB, l L, err error,
) L {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := l.Close(Long(t)); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

// Acquire acquires name.
func Acquire(t testing.TB, l fencelock.Locker, name string, opts ...fencelock.Option) fencelock.Lock {
	t.Helper()
	lock, err := l.Acquire(Long(t), name, opts...)
	require.NoError(t, err)
	return lock
}

// Try acquires name in one attempt.
func Try(t testing.TB, l fencelock.Locker, name string, opts ...fencelock.Option) fencelock.Lock {
	t.Helper()
	lock, err := l.TryAcquire(Long(t), name, opts...)
	require.NoError(t, err)
	return lock
}

// Release releases lock.
func Release(t testing.TB, lock fencelock.Lock) {
	t.Helper()
	require.NoError(t, lock.Release(Long(t)))
}

// Cycle acquires and releases name and returns the token.
func Cycle(t testing.TB, l fencelock.Locker, name string, opts ...fencelock.Option) fencelock.Token {
	t.Helper()
	lock := Acquire(t, l, name, opts...)
	Release(t, lock)
	return lock.Token()
}

// Lost waits until the holder of lock is told that it is lost, at most for
// within, and returns how.
func Lost(t testing.TB, lock fencelock.Lock, within time.Duration) *fencelock.LostError {
	t.Helper()
	select {
	case <-lock.Lost():
	case <-time.After(within):
		t.Fatalf("the loss of %q was not told within %v", lock.Name(), within)
	}
	var why *fencelock.LostError
	require.ErrorAs(t, lock.Err(), &why)
	return why
}

// Eventually waits until f returns true.
func Eventually(t testing.TB, f func() bool, what string) {
	t.Helper()
	require.Eventually(t, f, state, look, what)
}

// Result is what an Acquire returned.
type Result struct {
	Lock fencelock.Lock
	Err  error
}

// Want starts an Acquire in the background and returns when queued, which counts
// those who wait at the server, counts one more.
func Want(t testing.TB, queued func() int, l fencelock.Locker, name string, opts ...fencelock.Option) <-chan Result {
	t.Helper()
	before := queued()
	got := make(chan Result, 1)
	ctx := Long(t)
	go func() {
		lock, err := l.Acquire(ctx, name, opts...)
		got <- Result{lock, err}
	}()
	Eventually(t, func() bool { return queued() == before+1 }, "the waiter queues")
	return got
}

// Receive waits for the lock that Want has asked for.
func Receive(t testing.TB, got <-chan Result) fencelock.Lock {
	t.Helper()
	select {
	case r := <-got:
		require.NoError(t, r.Err)
		return r.Lock
	case <-time.After(patience):
		t.Fatal("no lock")
		return nil
	}
}

// Hold is the body of a worker process that acquires name, writes the token and
// holds the lock until its input ends.
func Hold(l interface {
	fencelock.Locker
	Close(ctx context.Context) error
}, name string, in io.Reader, out io.Writer,
) error {
	ctx := context.Background()
	defer l.Close(ctx) //nolint:errcheck // the process ends
	lock, err := l.Acquire(ctx, name)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, lock.Token())
	_, _ = io.Copy(io.Discard, in)
	return lock.Release(ctx)
}
