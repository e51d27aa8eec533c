package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
)

func TestPollsAreExponentialAndBounded(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		other := newLocker(t, s, fencelock.TTL(time.Hour))
		k := acquire(t, other, "a")
		w := acquireAsync(t.Context(), l, "a", fencelock.Backoff(10*time.Millisecond, time.Second))
		time.Sleep(100 * time.Second)
		n := s.count("try")
		require.Greater(t, n, 100)
		require.Less(t, n, 400) // a mean of half a second
		free(t, k)
		start := time.Now()
		r := <-w
		require.NoError(t, r.err)
		require.LessOrEqual(t, time.Since(start), time.Second)
		free(t, r.k)
	})
}

func TestAPollIsNotLaterThanTheHoldersEnd(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		s.held["a"] = record{"a silent holder", 1, time.Now().Add(ttl)}
		start := time.Now()
		k := acquire(t, l, "a", fencelock.Backoff(time.Hour, time.Hour))
		require.LessOrEqual(t, time.Since(start), ttl+time.Millisecond)
		free(t, k)
	})
}

func TestAWakeUpCutsThePollShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		subscribed := 0
		l, other := newLocker(t, waking{s, &subscribed}), newLocker(t, s, fencelock.TTL(time.Hour))
		free(t, acquire(t, l, "a"))
		require.Zero(t, subscribed, "subscribed only after a refusal")
		k := acquire(t, other, "a")
		w := acquireAsync(t.Context(), l, "a", fencelock.Backoff(time.Minute, time.Hour))
		synctest.Wait()
		require.Equal(t, 1, subscribed)
		require.Equal(t, 4, s.count("try"), "refused, subscribed, tried again")
		start := time.Now()
		free(t, k)
		r := <-w
		require.NoError(t, r.err)
		require.Zero(t, time.Since(start))
		free(t, r.k)
	})
}

// A line that was empty for a moment goes on with the same goroutine, but with a
// subscription of its own.
func TestANewWaiterIsWokenThoughTheLastOneLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		subscribed := 0
		l, other := newLocker(t, waking{s, &subscribed}), newLocker(t, s, fencelock.TTL(time.Hour))
		k := acquire(t, other, "a")
		slow := fencelock.Backoff(time.Minute, time.Hour)
		gone := acquireAsync(t.Context(), l, "a", slow)
		synctest.Wait()

		l.mu.Lock()
		ln := l.lines["a"]
		out := ln.refuse(errBroken, func(*waiter) bool { return true }) // the waiter leaves,
		l.leave(ln)
		set, err := override(l.def, []fencelock.Option{slow})
		require.NoError(t, err)
		w := newWaiter(t.Context(), set, time.Now(), false)
		ln.push(w) // and another comes before the goroutine has noticed
		l.mu.Unlock()
		out[0].send()
		require.ErrorIs(t, (<-gone).err, errBroken)
		synctest.Wait()
		require.Equal(t, 2, subscribed)

		start := time.Now()
		free(t, k)
		o := <-w.served
		require.Zero(t, time.Since(start))
		free(t, o.handle)
	})
}
