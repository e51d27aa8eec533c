package lease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
)

// passing says whether the holder's release served the waiter without a trip.
func passing(t *testing.T, s *server, l *Locker, k fencelock.Lock, opts ...fencelock.Option) bool {
	t.Helper()
	w := acquireAsync(t.Context(), l, k.Name(), opts...)
	synctest.Wait()
	before := s.count("try")
	free(t, k)
	r := <-w
	require.NoError(t, r.err)
	require.Greater(t, r.k.Token(), k.Token())
	require.False(t, isLost(k))
	free(t, r.k)
	return s.count("try") == before
}

func TestAHoldIsPassedOnlyToWhomItCanServe(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		require.True(t, passing(t, s, l, acquire(t, l, "a")))
		require.False(t, passing(t, s, l, acquire(t, l, "a"), fencelock.Passes(0)))
		require.False(t, passing(t, s, l, acquire(t, l, "a"), fencelock.TTL(2*ttl)))
		k := acquire(t, l, "a")
		require.False(t, passing(t, s, l, k, fencelock.MinToken(k.Token()+1)))
		k = acquire(t, l, "a")
		require.True(t, passing(t, s, l, k, fencelock.MinToken(k.Token())))
		require.False(t, passing(t, s, l, acquire(t, l, "a", fencelock.Passes(0))), "the block has one token")
	})
}

func TestAHoldWithLessThanHalfItsTTLIsNotPassed(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		s.on("renew", hang)
		s.delay(0, ttl*6/10)
		k := acquire(t, l, "a")
		s.delay(0, 0)
		require.False(t, passing(t, s, l, k))
	})
}

func TestPassesAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		k := acquire(t, l, "a", fencelock.Passes(2))
		var waits []<-chan result
		for range 5 {
			waits = append(waits, acquireAsync(t.Context(), l, "a", fencelock.Passes(2)))
			synctest.Wait()
		}
		for _, w := range waits {
			free(t, k)
			k = (<-w).k
		}
		free(t, k)
		require.Equal(t, 2, s.count("try"), "six holds, three to a grant")
	})
}

// A hot name in one process does not keep the others out.
func TestATurnEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		s.delay(50*time.Microsecond, 50*time.Microsecond)
		free(t, acquire(t, l, "a")) // learns what a hand-off costs
		l.mu.Lock()
		require.Equal(t, 200*time.Microsecond, l.handOff.value)
		l.mu.Unlock()

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 3 {
			go func() {
				for ctx.Err() == nil {
					k, err := l.Acquire(ctx, "a")
					if err != nil {
						return
					}
					time.Sleep(100 * time.Microsecond)
					_ = k.Release(context.Background())
				}
			}()
		}
		time.Sleep(2 * time.Millisecond)
		other := newLocker(t, s, fencelock.Backoff(10*time.Microsecond, 100*time.Microsecond))
		for range 20 {
			start := time.Now()
			k := acquire(t, other, "a")
			require.Less(t, time.Since(start), 15*time.Millisecond)
			free(t, k)
		}
		cancel()
	})
}

func TestThoseInLineWhenATurnBeganAreServedInIt(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		other := newLocker(t, s)
		k := acquire(t, other, "a")
		var waits []<-chan result
		for range 8 {
			waits = append(waits, acquireAsync(t.Context(), l, "a"))
			synctest.Wait()
		}
		free(t, k)
		tries := 0
		var lates []<-chan result
		for i, w := range waits {
			r := <-w
			if i == 0 {
				tries = s.count("try")
			}
			late := acquireAsync(t.Context(), l, "a")
			time.Sleep(2 * time.Millisecond)
			require.Equal(t, tries, s.count("try"), "%d ms, below the bound of 25 ms", 2*(i+1))
			free(t, r.k)
			lates = append(lates, late)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.Greater(t, s.count("try"), tries, "those who came later wait for the next turn")
		for _, w := range lates {
			free(t, (<-w).k)
		}
	})
}

func TestTheEstimateIsASlowlyRisingMinimum(t *testing.T) {
	var e estimate
	e.add(time.Millisecond)
	e.add(100 * time.Microsecond)
	require.Equal(t, 100*time.Microsecond, e.value)
	e.add(time.Second)
	require.Less(t, e.value, 102*time.Microsecond)
	for range 1000 {
		e.add(time.Millisecond)
	}
	require.InDelta(t, time.Millisecond, e.value, float64(50*time.Microsecond))
}
