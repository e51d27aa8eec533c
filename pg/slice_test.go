package pg_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/pg"
)

// A waiter's statement keeps CREATE INDEX CONCURRENTLY waiting, on any table.
func TestWaitersDoNotHoldUpTheDatabase(t *testing.T) {
	t.Cleanup(pg.SetSlice(300 * time.Millisecond))
	eachStyle(t, func(t *testing.T, style string) {
		db := database(t)
		pool := connect(t, db.URL())
		_, err := pool.Exec(long(t), "CREATE TABLE data (i int)")
		require.NoError(t, err)
		l := locker(t, style, pool, fencelock.TTL(time.Minute))
		lock := acquire(t, l, "a")
		done := make(chan error, 1)
		go func() {
			lock, err := locker(t, style, connect(t, db.URL())).Acquire(long(t), "a")
			if err == nil {
				err = lock.Release(long(t))
			}
			done <- err
		}()
		waiting(t, l, "a", 1)
		ctx, cancel := context.WithTimeout(long(t), 10*time.Second)
		defer cancel()
		_, err = pool.Exec(ctx, "CREATE INDEX CONCURRENTLY ON data (i)")
		require.NoError(t, err)
		require.Empty(t, done, "the waiter waits on")
		release(t, lock)
		require.NoError(t, <-done)
	})
}

// S6, the race itself: a wait that times out at the moment of the grant keeps
// nothing.
func TestNothingIsKeptWhenSlicesEnd(t *testing.T) {
	t.Cleanup(pg.SetSlice(5 * time.Millisecond))
	eachStyle(t, func(t *testing.T, style string) {
		db := database(t)
		var all sync.WaitGroup
		for range 6 {
			l := locker(t, style, connect(t, db.URL()), fencelock.Passes(0))
			all.Go(func() {
				for range 20 {
					lock, err := l.Acquire(long(t), "a")
					if err != nil {
						t.Error(err)
						return
					}
					<-time.After(4 * time.Millisecond)
					if err := lock.Release(long(t)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		l := locker(t, style, connect(t, db.URL()))
		waiting(t, l, "a", 0)
		lock, err := l.TryAcquire(long(t), "a")
		require.NoError(t, err, "nobody has it any more")
		release(t, lock)
	})
}

// An operator's pg_cancel_backend ends a statement, not the wait.
func TestCancelledStatementIsRepeated(t *testing.T) {
	eachStyle(t, func(t *testing.T, style string) {
		db := database(t)
		l := locker(t, style, connect(t, db.URL()))
		lock := acquire(t, l, "a")
		done := make(chan error, 1)
		go func() {
			lock, err := locker(t, style, connect(t, db.URL())).Acquire(long(t), "a")
			if err == nil {
				err = lock.Release(long(t))
			}
			done <- err
		}()
		waiting(t, l, "a", 1)
		require.Equal(t, []string{"t"}, db.Strings(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity
			WHERE application_name LIKE 'fencelock%' AND wait_event_type = 'Lock' AND datname = current_database()`))
		waiting(t, l, "a", 1)
		release(t, lock)
		require.NoError(t, <-done)
	})
}
