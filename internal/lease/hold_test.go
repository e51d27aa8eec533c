package lease

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/option"
)

func TestDeadlineCountsFromTheSending(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		s.delay(50*time.Millisecond, 100*time.Millisecond)
		sent := time.Now()
		k := acquire(t, l, "a")
		require.Equal(t, ttl-margin(ttl)-time.Since(sent), k.Valid())
		s.on("renew", hang)
		<-k.Lost()
		require.Equal(t, ttl-margin(ttl), time.Since(sent), "told at the deadline, before the server can let it expire")
		var lost *fencelock.LostError
		require.ErrorAs(t, k.Err(), &lost)
		require.Equal(t, fencelock.LostError{Name: "a", Token: k.Token(), Reason: fencelock.Expired}, *lost)
		require.Zero(t, k.Valid())
		require.ErrorIs(t, k.Release(t.Context()), fencelock.ErrLost)
	})
}

// A18: the answers come back so late that each renewal is worth less than the TTL.
func TestRenewalCountsFromItsSending(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		k := acquire(t, l, "a")
		s.delay(0, ttl/5)
		time.Sleep(ttl/3 + ttl/5 - time.Millisecond)
		synctest.Wait()
		require.Equal(t, ttl-margin(ttl)-(ttl/3+ttl/5-time.Millisecond), k.Valid())
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.Equal(t, ttl-margin(ttl)-ttl/5, k.Valid())
		free(t, k)
	})
}

func TestHeldForManyTTLsAfterTheCtxOfAcquireEnded(t *testing.T) { // A16
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		ctx, cancel := context.WithCancel(t.Context())
		k, err := l.Acquire(ctx, "a")
		require.NoError(t, err)
		cancel()
		time.Sleep(20 * ttl)
		require.NoError(t, k.Err())
		require.InDelta(t, 60, s.count("renew"), 1)
		free(t, k)
		time.Sleep(2 * ttl)
		require.InDelta(t, 60, s.count("renew"), 1, "none after release") // A10
	})
}

// One renewal that hangs neither delays the others' nor its own loss.
func TestAStuckRenewalDelaysNoOther(t *testing.T) { // A11
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		stuck, healthy := acquire(t, l, "stuck"), acquire(t, l, "healthy")
		start := time.Now()
		s.on("renew", func(ctx context.Context, r Request) error {
			if r.Key == "stuck" {
				return hang(ctx, r)
			}
			return nil
		})
		<-stuck.Lost()
		require.Equal(t, ttl-margin(ttl), time.Since(start))
		time.Sleep(5 * ttl)
		require.NoError(t, healthy.Err())
		free(t, healthy)
	})
}

func TestARenewalThatFailsIsTriedAgainUntilTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		k := acquire(t, l, "a")
		s.on("renew", func(context.Context, Request) error {
			if s.count("renew") < 5 {
				return errBroken
			}
			return nil
		})
		time.Sleep(3 * ttl)
		require.NoError(t, k.Err())
		free(t, k)
	})
}

func TestALossThatTheServerReportsIsFinal(t *testing.T) { // A4, A12
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		k := acquire(t, l, "a")
		s.mu.Lock()
		delete(s.held, "a")
		s.mu.Unlock()
		<-k.Lost()
		var lost *fencelock.LostError
		require.ErrorAs(t, k.Err(), &lost)
		require.Equal(t, fencelock.Deleted, lost.Reason)
		require.Empty(t, s.holder("a"), "a renewal creates nothing")

		again := acquire(t, l, "a")
		require.Greater(t, again.Token(), k.Token())
		time.Sleep(5 * ttl)
		require.NoError(t, again.Err())
		free(t, again)
	})
}

func TestABackendsDoneTellsAllItsHolders(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		done := make(chan struct{})
		s.done = done
		a, b := acquire(t, l, "a"), acquire(t, l, "b")
		free(t, acquire(t, l, "c"))
		close(done)
		synctest.Wait()
		for _, k := range []fencelock.Lock{a, b} {
			require.True(t, isLost(k))
			var lost *fencelock.LostError
			require.ErrorAs(t, k.Err(), &lost)
			require.Equal(t, fencelock.SessionGone, lost.Reason)
			require.Empty(t, s.holder(k.Name()), "what the server has not noticed is removed")
		}
	})
}

// Many holds may share a Done; the end of one is told by Lose.
func TestADriverTellsOneHolder(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		a, b := acquire(t, l, "a"), acquire(t, l, "b")
		r := a.(*handle).h.r
		l.Lose(Request{Key: r.Key, Attempt: "another"}, fencelock.LostError{Reason: fencelock.Deleted})
		l.Lose(Request{Key: "nobody's", Attempt: r.Attempt}, fencelock.LostError{Reason: fencelock.Deleted})
		require.False(t, isLost(a))
		l.Lose(r, fencelock.LostError{Reason: fencelock.Deleted})
		require.True(t, isLost(a))
		require.False(t, isLost(b))
		var lost *fencelock.LostError
		require.ErrorAs(t, a.Err(), &lost)
		require.Equal(t, fencelock.LostError{Name: "a", Token: a.Token(), Reason: fencelock.Deleted}, *lost)
		free(t, b)
	})
}

func TestATTLThatIsTheSessionsIsForNewOnly(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		l.def.Fix(option.TTL)
		_, err := l.Acquire(t.Context(), "a", fencelock.TTL(l.def.TTL))
		require.ErrorContains(t, err, "for New only")
		free(t, acquire(t, l, "a"))
	})
}

// A process that was stopped runs its caller before its timers.
func TestTheDeadlineHoldsEvenIfItsTimerIsLate(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		for _, ask := range []func(k fencelock.Lock) bool{
			func(k fencelock.Lock) bool { return k.Err() != nil },
			func(k fencelock.Lock) bool { return k.Valid() == 0 },
			func(k fencelock.Lock) bool { return k.Release(t.Context()) != nil },
		} {
			k := acquire(t, l, "a")
			l.mu.Lock()
			l.alarms.timer.Stop()
			l.alarms.armed = time.Time{}
			l.mu.Unlock()
			time.Sleep(ttl)
			require.True(t, ask(k))
			require.True(t, isLost(k))
		}
	})
}

func TestAGrantThatArrivesTooLateIsNotHandedOut(t *testing.T) { // A6
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		s.delay(0, ttl)
		_, err := l.TryAcquire(t.Context(), "a")
		require.ErrorIs(t, err, errLate)
		synctest.Wait()
		require.Empty(t, s.holder("a"))

		_, err = l.Acquire(t.Context(), "a")
		require.ErrorIs(t, err, errLate, "the TTL is too short for this server")
		require.Equal(t, 1+maxLate, s.count("try"))

		time.AfterFunc(3*ttl, func() { s.delay(0, 0) })
		k := acquire(t, l, "a")
		require.Greater(t, k.Valid(), ttl/2)
		free(t, k)
	})
}

// The waiter of a grant may wake late: then it gets in line again.
func TestAHoldThatRanOutBeforeItsWaiterWokeIsNotHandedOut(t *testing.T) { // A6
	var lost int
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		k := acquire(t, l, "a")
		w := acquireAsync(t.Context(), l, "a")
		synctest.Wait()
		s.on("renew", hang)
		l.mu.Lock()
		d, trip := l.giveUp(k.(*handle), time.Now())
		l.mu.Unlock()
		require.False(t, trip)
		time.Sleep(ttl)
		d.send() // the waiter of a pass that wakes after the hold's deadline
		k = (<-w).k
		require.Greater(t, k.Valid(), ttl/2)
		require.Equal(t, 2, s.count("try"))
		require.Zero(t, lost, "its caller never had the first")
		free(t, k)
	}, fencelock.Observe(func(_ context.Context, e fencelock.Event) {
		if e.Kind == fencelock.EventLose {
			lost++
		}
	}))
}

func TestARenewalAndAReleaseMayCross(t *testing.T) { // A10
	var renewals int
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		// The answer comes after the release.
		k := acquire(t, l, "a")
		s.delay(0, ttl/8)
		time.Sleep(ttl/3 + time.Millisecond)
		require.Equal(t, 1, s.count("renew"))
		free(t, k)
		time.Sleep(ttl)
		require.False(t, isLost(k))
		require.Zero(t, renewals, "of a hold that has been released")

		// The renewal is due, but not sent yet.
		k = acquire(t, l, "a")
		free(t, k)
		l.start()
		l.renew(ttl, []*hold{k.(*handle).h})
		require.Equal(t, 1, s.count("renew"))
	}, fencelock.Observe(func(_ context.Context, e fencelock.Event) {
		if e.Kind == fencelock.EventRenew {
			renewals++
		}
	}))
}

func TestTenThousandHoldsParkNoGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		before := goroutines()
		var held []fencelock.Lock
		for i := range 10_000 {
			held = append(held, acquire(t, l, string(rune(0x4E00+i))))
			if i%100 == 0 {
				time.Sleep(ttl / 300) // they do not all come at one moment
			}
		}
		synctest.Wait()
		for range 1000 { // those that have just ended are still counted for a moment
			if goroutines() <= before+5 {
				break
			}
			runtime.Gosched()
		}
		require.InDelta(t, before, goroutines(), 5)
		time.Sleep(3 * ttl)
		for _, k := range held {
			require.NoError(t, k.Err())
		}
		s.mu.Lock()
		batches := len(s.batches)
		s.mu.Unlock()
		require.Less(t, batches, 300, "90,000 renewals in batches")
		for _, k := range held {
			free(t, k)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		require.Empty(t, l.lines)
		require.Empty(t, l.alarms.heap)
	})
}

func TestWithLockParksNoGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T, s *server, l *Locker) {
		before := goroutines()
		inside, leave := make(chan struct{}), make(chan struct{})
		const n = 1000
		for i := range n {
			go fencelock.WithLock(t.Context(), l, string(rune(0x4E00+i)), func(ctx context.Context, _ fencelock.Token) error {
				inside <- struct{}{}
				<-leave
				return nil
			})
		}
		for range n {
			<-inside
		}
		require.InDelta(t, before+n, goroutines(), 5, "the callers' own goroutines and no more")
		close(leave)
	})
}

func TestAfterASuspensionTheServerIsAskedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := newLocker(t, s)
		var jump atomic.Int64
		l.wall = func(now time.Time) time.Time { return now.Round(0).Add(time.Duration(jump.Load())) }

		// Before a grant is handed out.
		s.on("try", func(context.Context, Request) error { jump.Add(int64(time.Hour)); s.on("try", nil); return nil })
		k := acquire(t, l, "a")
		require.Equal(t, 1, s.count("renew"))

		// Before a hold is passed: the next waiter gets a grant of its own.
		next := acquireAsync(t.Context(), l, "a")
		synctest.Wait()
		jump.Add(int64(time.Hour))
		free(t, k)
		r := <-next
		require.NoError(t, r.err)
		require.Equal(t, 2, s.count("try"))

		// A wall clock that was set is no loss.
		jump.Add(-3 * int64(time.Hour))
		time.Sleep(5 * ttl)
		require.NoError(t, r.k.Err())
		free(t, r.k)
	})
}
