package lease

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
)

func TestReleaseIsFinal(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		k := acquire(t, l, "a")
		free(t, k)
		free(t, k)
		require.Equal(t, 1, s.count("release"))
		require.False(t, isLost(k), "a release is no loss")
		var lost *fencelock.LostError
		require.ErrorAs(t, k.Err(), &lost)
		require.Equal(t, fencelock.Released, lost.Reason)
		require.Zero(t, k.Valid())
	})
}

func TestALateReleaseLeavesTheNextHolderAlone(t *testing.T) { // A5
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		k := acquire(t, l, "a")
		s.mu.Lock()
		s.held["a"] = record{"somebody else", 99, time.Now().Add(ttl)}
		s.mu.Unlock()
		require.ErrorIs(t, k.Release(t.Context()), fencelock.ErrLost)
		require.ErrorIs(t, k.Release(t.Context()), fencelock.ErrLost)
		require.Equal(t, "somebody else", s.holder("a"))
	})
}

func TestReleaseOnAnEndedCtx(t *testing.T) { // A2
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		k := acquire(t, l, "a")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		s.delay(0, 10*time.Millisecond)
		require.ErrorIs(t, k.Release(ended), context.Canceled)
		free(t, k)
		require.Empty(t, s.holder("a"))
		require.Equal(t, 1, s.count("release"), "the second call waits for the first's")
	})
}

func TestReleaseGoesOnInTheBackground(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		// Cut short by its ctx.
		k := acquire(t, l, "a")
		s.on("release", hang)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, k.Release(ctx), context.DeadlineExceeded)
		require.Equal(t, 50*time.Millisecond, time.Since(start))
		s.on("release", nil)
		free(t, k)
		require.Empty(t, s.holder("a"))

		// The server is broken for a while.
		k = acquire(t, l, "a")
		s.on("release", func(context.Context, Request) error { return errBroken })
		require.EqualError(t, k.Release(t.Context()), `fencelock: release "a": broken`)
		s.on("release", nil)
		free(t, k)

		// And for good.
		k = acquire(t, l, "a")
		s.on("release", func(context.Context, Request) error { return errBroken })
		require.ErrorIs(t, k.Release(t.Context()), errBroken)
		start = time.Now()
		require.ErrorIs(t, k.Release(t.Context()), errBroken)
		require.LessOrEqual(t, time.Since(start), time.Second, "bounded")
		n := s.count("release")
		time.Sleep(10 * time.Second)
		require.Equal(t, n, s.count("release"))
	})
}

func TestALineStaysBusyThroughTheReleasesTrip(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		k := acquire(t, l, "a")
		s.on("release", func(context.Context, Request) error { time.Sleep(10 * time.Millisecond); return nil })
		go k.Release(context.Background())
		synctest.Wait()
		_, err := l.TryAcquire(t.Context(), "a")
		require.ErrorIs(t, err, fencelock.ErrHeld)
		next := acquire(t, l, "a")
		require.Equal(t, 2, s.count("try"), "not refused by our own old hold")
		free(t, next)
	})
}

// Renewals and passes of a hold end when its release is sent, whatever comes of it.
func TestNoTokenIsHandedOutAfterTheReleaseWasSent(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		k := acquire(t, l, "a")
		s.on("release", func(context.Context, Request) error { return errBroken })
		require.Error(t, k.Release(t.Context()))
		s.on("release", nil)
		next := acquire(t, l, "a")
		require.Greater(t, next.Token(), k.Token()+1000, "a token of a new block")
		free(t, next)
	})
}

func TestCloseEndsEverything(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		held := acquire(t, l, "held")
		behind := acquireAsync(t.Context(), l, "held")
		other := newLocker(t, s)
		foreign := acquire(t, other, "foreign")
		waiting := acquireAsync(t.Context(), l, "foreign")
		s.on("try", func(ctx context.Context, r Request) error {
			if r.Key == "hangs" {
				return hang(ctx, r)
			}
			return nil
		})
		hanging := acquireAsync(t.Context(), l, "hangs")
		synctest.Wait()

		s.on("undo", func(context.Context, Request) error { time.Sleep(time.Second / 10); return nil })
		start := time.Now()
		short, cancel := context.WithTimeout(t.Context(), time.Second/20)
		defer cancel()
		require.ErrorIs(t, l.Close(short), context.DeadlineExceeded)
		for _, w := range []<-chan result{behind, waiting, hanging} {
			require.ErrorIs(t, (<-w).err, fencelock.ErrClosed)
		}
		require.Equal(t, time.Second/20, time.Since(start))
		require.NoError(t, l.Close(t.Context()))
		require.Equal(t, time.Second/10, time.Since(start), "it waits for the clean-up")
		require.NoError(t, l.Close(t.Context()))

		require.True(t, isLost(held))
		var lost *fencelock.LostError
		require.ErrorAs(t, held.Release(t.Context()), &lost)
		require.Equal(t, fencelock.Closed, lost.Reason)
		require.Empty(t, s.holder("held"))
		require.NotEmpty(t, s.holder("foreign"))
		_, err := l.Acquire(t.Context(), "a")
		require.ErrorIs(t, err, fencelock.ErrClosed)
		require.Positive(t, s.idled)
		free(t, foreign)
	})
}

func TestAnIdleLockerIsStoppedWithinATTL(t *testing.T) { // A21
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		idled := func() int { s.mu.Lock(); defer s.mu.Unlock(); return s.idled }
		for round := range 3 {
			k := acquire(t, l, "a")
			time.Sleep(3 * ttl)
			require.Equal(t, round, idled(), "not while something is held")
			free(t, k)
			for range 10 {
				free(t, acquire(t, l, "a"))
			}
			time.Sleep(ttl)
			require.Equal(t, round+1, idled())
			time.Sleep(5 * ttl)
			require.Equal(t, round+1, idled())
		}
	})
}

func TestWithLock(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		ctx, cancel := context.WithCancel(t.Context())
		err := fencelock.WithLock(ctx, l, "a", func(ctx context.Context, tok fencelock.Token) error {
			require.Positive(t, tok)
			cancel()
			<-ctx.Done()
			require.NotErrorIs(t, context.Cause(ctx), fencelock.ErrLost)
			return errBroken
		})
		require.Equal(t, errBroken, err, "fn's error as it is")
		require.Empty(t, s.holder("a"), "released although ctx had ended")

		s.on("renew", hang)
		err = fencelock.WithLock(t.Context(), l, "a", func(ctx context.Context, _ fencelock.Token) error {
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), fencelock.ErrLost)
			return nil
		})
		require.ErrorIs(t, err, fencelock.ErrLost, "a loss is never a nil error")

		require.PanicsWithValue(t, "x", func() {
			_ = fencelock.WithLock(t.Context(), l, "p", func(context.Context, fencelock.Token) error { panic("x") })
		})
		require.Empty(t, s.holder("p"))

		require.Error(t, fencelock.WithLock(t.Context(), l, "a", nil))
		require.Error(t, fencelock.WithLock(t.Context(), nil, "a", func(context.Context, fencelock.Token) error { return nil }))
	})
}

func TestEventsComeInOrder(t *testing.T) {
	type key struct{}
	var mu sync.Mutex
	var got []string
	observe := fencelock.Observe(func(ctx context.Context, e fencelock.Event) {
		mu.Lock()
		defer mu.Unlock()
		s := string(e.Kind) + " " + e.Name
		if e.Passed {
			s += " passed"
		}
		if e.Err != nil {
			s += ": " + e.Err.Error()
		}
		if ctx.Value(key{}) == nil {
			s += " (without the values of Acquire's ctx)"
		}
		got = append(got, s)
	})
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		ctx := context.WithValue(t.Context(), key{}, 1)
		k, err := l.Acquire(ctx, "a")
		require.NoError(t, err)
		next := acquireAsync(ctx, l, "a")
		synctest.Wait()
		_, err = l.TryAcquire(ctx, "a", fencelock.TTL(time.Second))
		require.Error(t, err)
		free(t, k)
		k = (<-next).k
		time.Sleep(ttl / 2)
		s.mu.Lock()
		delete(s.held, "a")
		s.mu.Unlock()
		<-k.Lost()
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []string{
			"acquire a",
			`acquire a: fencelock: "a" is held by another (for 889ms unless renewed)`,
			"release a passed",
			"acquire a passed",
			"renew a",
			"renew a: " + lostText(1, ""),
			"lose a: " + lostText(2, "a"),
		}, got)
	}, observe)
}

func lostText(token fencelock.Token, name string) string {
	if name == "" {
		token = 0
	}
	return (&fencelock.LostError{Name: name, Token: token, Reason: fencelock.Deleted}).Error()
}
