package lease

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
)

func goroutines() int { return runtime.NumGoroutine() }

func TestBadInputIsRefusedBeforeAnythingIsSent(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		for want, opt := range map[string]fencelock.Option{
			"TTL(9ms)":      fencelock.TTL(9 * time.Millisecond),
			"Wait(-1s)":     fencelock.Wait(-time.Second),
			"MinToken(-1)":  fencelock.MinToken(-1),
			"Passes(-1)":    fencelock.Passes(-1),
			"Prefix":        fencelock.Prefix("x/"),
			"Observe":       fencelock.Observe(func(context.Context, fencelock.Event) {}),
			"nil":           nil,
			"Backoff(0s":    fencelock.Backoff(0, time.Second),
			"Backoff(2s, 1": fencelock.Backoff(2*time.Second, time.Second),
		} {
			_, err := l.Acquire(t.Context(), "a", opt)
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, `"a"`)
		}
		_, err := l.Acquire(t.Context(), "")
		require.ErrorContains(t, err, "empty")
		_, err = l.TryAcquire(t.Context(), string(make([]byte, maxName+1)))
		require.ErrorContains(t, err, "8193 bytes")
		require.Zero(t, s.count("try"))
	})
	for want, opt := range map[string]fencelock.Option{
		"MinToken": fencelock.MinToken(1), "Observe(nil)": fencelock.Observe(nil), "TTL(0s)": fencelock.TTL(0),
	} {
		_, err := Settings("x", []fencelock.Option{opt})
		require.ErrorContains(t, err, want)
	}
}

func TestTryAcquireMakesOneAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		other := newLocker(t, s)
		k := acquire(t, other, "a")
		for _, try := range []func() error{
			func() error { _, err := l.TryAcquire(t.Context(), "a"); return err },
			func() error { _, err := l.Acquire(t.Context(), "a", fencelock.Wait(0)); return err },
		} {
			before := s.count("try")
			err := try()
			var held *fencelock.HeldError
			require.ErrorAs(t, err, &held)
			require.Equal(t, fencelock.HeldError{Name: "a", For: ttl}, *held)
			require.Equal(t, before+1, s.count("try"))
		}
		require.Zero(t, s.count("undo"), "nothing is sent after a clean refusal") // R10
		before := s.count("try")
		_, err := other.TryAcquire(t.Context(), "a")
		require.ErrorIs(t, err, fencelock.ErrHeld)
		require.Equal(t, before, s.count("try"), "held in this process: no trip")
		free(t, k)
	})
}

func TestTheEndOfAWaitTellsHeldFromUnreachable(t *testing.T) { // A7, A9
	for _, queue := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			var d Driver = s
			if queue {
				d = queueing{s}
			}
			l, other := newLocker(t, d), newLocker(t, d)
			k := acquire(t, other, "a")
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 3*ttl)
			defer cancel()
			first := acquireAsync(ctx, l, "a") // the lone caller
			synctest.Wait()
			_, err := l.Acquire(ctx, "a", fencelock.Wait(ttl)) // and one behind it
			require.ErrorIs(t, err, fencelock.ErrHeld)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, ttl, time.Since(start))
			r := <-first
			require.ErrorIs(t, r.err, fencelock.ErrHeld)
			require.ErrorIs(t, r.err, context.DeadlineExceeded)
			require.Equal(t, 3*ttl, time.Since(start))
			free(t, k)
			synctest.Wait() // the old line, which knows that it was refused, goes

			s.on("try", hang)
			for range 2 {
				_, err = l.Acquire(t.Context(), "a", fencelock.Wait(ttl))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotErrorIs(t, err, fencelock.ErrHeld)
			}
			ctx, cancel = context.WithCancel(t.Context())
			cancel()
			_, err = l.Acquire(ctx, "a")
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, fencelock.ErrHeld)
			s.on("try", nil)
		})
	}
}

func TestWaitersAreServedInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		k := acquire(t, l, "a")
		var waits []<-chan result
		for range 10 {
			waits = append(waits, acquireAsync(t.Context(), l, "a"))
			synctest.Wait()
		}
		last := k.Token()
		for _, w := range waits {
			free(t, k)
			r := <-w
			require.NoError(t, r.err)
			k = r.k
			require.Equal(t, last+1, k.Token())
			last = k.Token()
		}
		free(t, k)
		require.Equal(t, 1, s.count("try"))
		require.Equal(t, 1, s.count("release"))
	})
}

func TestACancelledAttemptIsUndone(t *testing.T) { // A1, A23
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		s.delay(0, 200*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := l.Acquire(ctx, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 50*time.Millisecond, time.Since(start))
		synctest.Wait()
		require.Empty(t, s.holder("a"))
		require.Equal(t, 1, s.count("undo"))
	})
}

func TestCleanUpIsRepeatedUntilItIsDone(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		s.on("try", func(context.Context, Request) error { return errBroken })
		s.on("undo", func(context.Context, Request) error {
			if s.count("undo") < 4 {
				return errBroken
			}
			return nil
		})
		_, err := l.Acquire(t.Context(), "a")
		require.ErrorIs(t, err, errBroken)
		require.EqualError(t, err, `fencelock: acquire "a": broken`)
		time.Sleep(ttl)
		require.Equal(t, 4, s.count("undo"))

		// It is bounded: by the TTL, and not less than a second.
		s.on("undo", hang)
		start := time.Now()
		_, err = l.Acquire(t.Context(), "a")
		require.Error(t, err)
		require.NoError(t, l.Close(t.Context()))
		require.Equal(t, time.Second, time.Since(start))
	})
}

func TestADefiniteErrorNeedsNoCleanUp(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		s.on("try", func(context.Context, Request) error { return Definite(errBroken) })
		_, err := l.Acquire(t.Context(), "a")
		require.EqualError(t, err, `fencelock: acquire "a": broken`)
		require.NoError(t, l.Close(t.Context()))
		require.Zero(t, s.count("undo"))
	})
}

// A thousand waiters do not pay a time-out each.
func TestEverybodyInLineGetsTheClientsError(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		other := newLocker(t, s)
		k := acquire(t, other, "a")
		var waits []<-chan result
		for range 5 {
			waits = append(waits, acquireAsync(t.Context(), l, "a"))
		}
		synctest.Wait()
		start := time.Now()
		s.on("try", func(ctx context.Context, _ Request) error { time.Sleep(time.Second); return errBroken })
		for _, w := range waits {
			require.ErrorIs(t, (<-w).err, errBroken)
		}
		require.Less(t, time.Since(start), 2*time.Second)
		s.on("try", nil)
		free(t, k)
	})
}

func TestARequestsOwnErrorIsToldToNobodyElse(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		other := newLocker(t, s)
		k := acquire(t, other, "a")
		s.on("try", func(_ context.Context, r Request) error {
			switch r.Min {
			case 666:
				return Unfit(errBroken)
			case 777:
				return fencelock.ErrRegressed
			}
			return nil
		})
		bad := acquireAsync(t.Context(), l, "a", fencelock.MinToken(666))
		worse := acquireAsync(t.Context(), l, "a", fencelock.MinToken(777))
		synctest.Wait()
		good := acquireAsync(t.Context(), l, "a")
		require.ErrorIs(t, (<-bad).err, errBroken)
		require.ErrorIs(t, (<-worse).err, fencelock.ErrRegressed)
		free(t, k)
		r := <-good
		require.NoError(t, r.err)
		free(t, r.k)
	})
}

func TestTheAttemptGoesOnForTheNextWhenAWaiterLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l, other := newLocker(t, queueing{s}), newLocker(t, queueing{s})
		k := acquire(t, other, "a")
		lone, leaveLone := context.WithCancel(t.Context())
		first := acquireAsync(lone, l, "a")
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		second := acquireAsync(ctx, l, "a")
		synctest.Wait()
		third := acquireAsync(t.Context(), l, "a")
		synctest.Wait()

		leaveLone()
		require.ErrorIs(t, (<-first).err, context.Canceled)
		synctest.Wait()
		tries := s.count("try")
		cancel()
		require.ErrorIs(t, (<-second).err, context.Canceled)
		synctest.Wait()
		require.Equal(t, tries, s.count("try"), "the process keeps its place in the server's queue")
		free(t, k)
		r := <-third
		require.NoError(t, r.err)
		free(t, r.k)
		require.Equal(t, tries+1, s.count("try"))
	})
}

func TestWhenTheLastWaiterLeavesTheAttemptIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l, other := newLocker(t, queueing{s}), newLocker(t, queueing{s})
		k := acquire(t, other, "a")
		ctx, cancel := context.WithCancel(t.Context())
		one, two := acquireAsync(ctx, l, "a"), acquireAsync(ctx, l, "a")
		synctest.Wait()
		cancel()
		require.Error(t, (<-one).err)
		require.Error(t, (<-two).err)
		synctest.Wait()
		l.mu.Lock()
		require.Empty(t, l.lines)
		l.mu.Unlock()
		free(t, k)
	})
}

// A8: whoever is cancelled at the moment of the grant gives it back.
func TestAGrantAtTheMomentOfTheCancelIsGivenBack(t *testing.T) {
	var events []fencelock.EventKind
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		k := acquire(t, l, "a").(*handle)
		ctx, cancel := context.WithCancel(t.Context())
		w := acquireAsync(ctx, l, "a")
		synctest.Wait()
		l.mu.Lock()
		cancel() // the waiter wakes, and finds that it has been served
		d, trip := l.giveUp(k, time.Now())
		l.mu.Unlock()
		require.False(t, trip)
		synctest.Wait()
		d.send()
		r := <-w
		require.ErrorIs(t, r.err, context.Canceled)
		require.NotErrorIs(t, r.err, fencelock.ErrHeld)
		synctest.Wait()
		require.Empty(t, s.holder("a"))
		require.Equal(t, []fencelock.EventKind{fencelock.EventAcquire, fencelock.EventRelease, fencelock.EventAcquire}, events,
			"its caller never had it")

		// The end of Wait is no reason: the caller is still there.
		l.mu.Lock()
		l.handOff.value = time.Second // a turn lasts
		l.mu.Unlock()
		k = acquire(t, l, "a").(*handle)
		w = acquireAsync(t.Context(), l, "a", fencelock.Wait(time.Second/100))
		synctest.Wait()
		l.mu.Lock()
		time.Sleep(time.Second / 100)
		d, _ = l.giveUp(k, time.Now())
		l.mu.Unlock()
		d.send()
		r = <-w
		require.NoError(t, r.err)
		free(t, r.k)
	}, fencelock.Observe(func(_ context.Context, e fencelock.Event) { events = append(events, e.Kind) }))
}

// A8, at random.
func TestNoErrorMeansHeld(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		for i := range 200 {
			k := acquire(t, l, "a")
			ctx, cancel := context.WithCancel(t.Context())
			w := acquireAsync(ctx, l, "a")
			synctest.Wait()
			go cancel()
			go k.Release(context.Background())
			r := <-w
			synctest.Wait()
			if (r.err == nil) != (s.holder("a") != "") {
				t.Fatalf("round %d: error %v, holder %q", i, r.err, s.holder("a"))
			}
			if r.err == nil {
				free(t, r.k)
			} else {
				require.ErrorIs(t, r.err, context.Canceled)
			}
			cancel()
		}
	})
}

func TestADeadAttemptIsFollowedByAFreshOne(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		s.on("try", func(context.Context, Request) error {
			if s.count("try") < 3 {
				return &fencelock.LostError{Reason: fencelock.Deleted}
			}
			return nil
		})
		_, err := l.TryAcquire(t.Context(), "a")
		require.ErrorIs(t, err, errLate)
		require.NotErrorIs(t, err, fencelock.ErrHeld)
		free(t, acquire(t, l, "a"))
		require.Equal(t, 3, s.count("try"))
	})
}

func TestErrorsKeepTheClients(t *testing.T) {
	require.True(t, IsDefinite(Definite(errBroken)))
	require.False(t, isUnfit(Definite(errBroken)))
	require.True(t, isUnfit(Unfit(errBroken)) && IsDefinite(Unfit(errBroken)))
	require.True(t, IsDefinite(&fencelock.HeldError{}))
	require.False(t, IsDefinite(errBroken))
	require.Same(t, errBroken, unmark(Definite(errBroken)))
	require.True(t, errors.Is(Definite(errBroken), errBroken))
}

// A waiter that stood behind others of its own process knows that the lock was
// held, whatever the server is doing when its wait ends.
func TestWaitBehindALocalHolderIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		k := acquire(t, l, "a")
		waits := acquireAsync(t.Context(), l, "a", fencelock.Wait(time.Second))
		time.Sleep(900 * time.Millisecond)
		s.on("try", hang)
		free(t, k)
		r := <-waits
		require.ErrorIs(t, r.err, fencelock.ErrHeld)
		require.NotErrorIs(t, r.err, context.DeadlineExceeded)
	}, fencelock.Passes(0))
}
