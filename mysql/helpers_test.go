package mysql_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/mysql"
)

// open returns a Locker that is closed with the test.
func open(t testing.TB, style constructor, db *sql.DB, opts ...fencelock.Option) *mysql.Locker {
	t.Helper()
	l, err := style(db, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := l.Close(long(t)); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

// long is a ctx that outlasts whatever a slow machine makes of the test.
func long(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func acquire(t testing.TB, l fencelock.Locker, name string, opts ...fencelock.Option) fencelock.Lock {
	t.Helper()
	lock, err := l.Acquire(long(t), name, opts...)
	require.NoError(t, err)
	return lock
}

func release(t testing.TB, lock fencelock.Lock) {
	t.Helper()
	require.NoError(t, lock.Release(long(t)))
}

// cycle acquires and releases name and returns the token.
func cycle(t testing.TB, l fencelock.Locker, name string, opts ...fencelock.Option) fencelock.Token {
	t.Helper()
	lock := acquire(t, l, name, opts...)
	release(t, lock)
	return lock.Token()
}

func eventually(t testing.TB, f func() bool, what string) {
	t.Helper()
	require.Eventually(t, f, 20*time.Second, 5*time.Millisecond, what)
}

// lost waits until the holder is told.
func lost(t testing.TB, lock fencelock.Lock, within time.Duration) *fencelock.LostError {
	t.Helper()
	select {
	case <-lock.Lost():
	case <-time.After(within):
		t.Fatalf("the loss of %q was not told within %v", lock.Name(), within)
	}
	var lost *fencelock.LostError
	require.ErrorAs(t, lock.Err(), &lost)
	return lost
}
