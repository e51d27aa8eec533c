package mem

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
)

// open returns n Lockers on one Server, with a TTL of 3 s.
func open(t *testing.T, n int) (*Server, []*Locker) {
	t.Helper()
	s := NewServer()
	var lockers []*Locker
	for range n {
		l, err := New(s, fencelock.TTL(3*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := l.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		lockers = append(lockers, l)
	}
	return s, lockers
}

func acquire(t *testing.T, l fencelock.Locker, name string) fencelock.Lock {
	t.Helper()
	lock, err := l.Acquire(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func release(t *testing.T, lock fencelock.Lock) {
	t.Helper()
	if err := lock.Release(context.Background()); err != nil {
		t.Error(err)
	}
}

// within checks that c is closed after d at the latest, and not before least.
func within(t *testing.T, c <-chan struct{}, least, d time.Duration) {
	t.Helper()
	start := time.Now()
	select {
	case <-c:
		if took := time.Since(start); took < least {
			t.Errorf("after %v, want at least %v", took, least)
		}
	case <-time.After(d):
		t.Fatalf("not within %v", d)
	}
}

func reason(err error) fencelock.Reason {
	var lost *fencelock.LostError
	if errors.As(err, &lost) {
		return lost.Reason
	}
	return ""
}

func TestExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := open(t, 2)
		lock := acquire(t, l[0], "n")
		s.Expire("n")
		s.Expire("nobody has it")
		next := acquire(t, l[1], "n")
		within(t, lock.Lost(), 0, 1100*time.Millisecond) // the next renewal
		if r := reason(lock.Err()); r != fencelock.Taken {
			t.Errorf("the reason is %q", r)
		}
		if next.Token() <= lock.Token() {
			t.Errorf("token %d after %d", next.Token(), lock.Token())
		}
		release(t, next)
	})
}

func TestSteal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := open(t, 1)
		lock := acquire(t, l[0], "n")
		thief := s.Steal("n", time.Minute)
		if thief <= lock.Token() {
			t.Errorf("token %d after %d", thief, lock.Token())
		}
		within(t, lock.Lost(), 0, 1100*time.Millisecond)
		if r := reason(lock.Release(t.Context())); r != fencelock.Taken {
			t.Errorf("the reason is %q", r)
		}
		start := time.Now()
		next := acquire(t, l[0], "n")
		if waited := time.Since(start); waited < 58*time.Second || waited > time.Minute {
			t.Errorf("waited %v for the thief", waited)
		}
		if next.Token() <= thief {
			t.Errorf("token %d after %d", next.Token(), thief)
		}
		release(t, next)
	})
}

func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := open(t, 2)
		lock := acquire(t, l[0], "n")
		time.Sleep(time.Microsecond)
		s.Forget("n")
		next := acquire(t, l[1], "n")
		if next.Token() <= lock.Token() {
			t.Errorf("token %d after %d", next.Token(), lock.Token())
		}
		release(t, next)
		within(t, lock.Lost(), 0, 1100*time.Millisecond)
		if r := reason(lock.Err()); r != fencelock.Deleted {
			t.Errorf("the reason is %q", r)
		}
	})
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := open(t, 2)
		lock := acquire(t, l[0], "held")
		s.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		if _, err := l[1].Acquire(ctx, "free"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fencelock.ErrHeld) {
			t.Errorf("Acquire from a server that hangs: %v", err)
		}
		if d := time.Since(start); d != 100*time.Millisecond {
			t.Errorf("returned after %v", d)
		}
		within(t, lock.Lost(), 2800*time.Millisecond, 3*time.Second)
		time.Sleep(time.Second)
		s.Resume()
		release(t, acquire(t, l[1], "held"))
		release(t, acquire(t, l[0], "free")) // the abandoned acquire has been undone
		if held := s.Held(); len(held) != 0 {
			t.Errorf("held: %q", held)
		}
	})
}

func TestFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := open(t, 1)
		denied := errors.New("permission denied")
		s.Fail(denied)
		for _, acquire := range []func(context.Context, string, ...fencelock.Option) (fencelock.Lock, error){l[0].Acquire, l[0].TryAcquire} {
			if _, err := acquire(t.Context(), "n"); !errors.Is(err, denied) || errors.Is(err, fencelock.ErrHeld) {
				t.Errorf("from a server that fails: %v", err)
			}
		}
		s.Fail(nil)
		release(t, acquire(t, l[0], "n"))
	})
}

func TestStepClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := open(t, 2)
		lock := acquire(t, l[0], "n")
		next := make(chan fencelock.Lock)
		go func() { next <- acquire(t, l[1], "n") }()
		synctest.Wait()
		s.StepClock(5 * time.Second)
		second := <-next // at once, and the first does not know yet: two holders
		if lock.Err() != nil {
			t.Errorf("the first holder has been told: %v", lock.Err())
		}
		f := NewFence()
		if err := f.Admit(t.Context(), "data", second.Token()); err != nil {
			t.Error(err)
		}
		if err := f.Admit(t.Context(), "data", lock.Token()); !errors.Is(err, fencelock.ErrStale) {
			t.Errorf("the fence says %v to the first holder", err)
		}
		release(t, second)
		s.StepClock(-time.Hour)
		third := acquire(t, l[1], "n")
		if third.Token() <= second.Token() {
			t.Errorf("token %d after %d, since the clock went back", third.Token(), second.Token())
		}
		release(t, third)
	})
}

func TestDropReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := open(t, 2)
		l[0].Link().DropReply()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		done := make(chan error)
		go func() {
			_, err := l[0].Acquire(ctx, "n")
			done <- err
		}()
		synctest.Wait()
		if held := s.Held(); !slices.Equal(held, []string{"n"}) {
			t.Errorf("held while the reply is lost: %q", held)
		}
		if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire without a reply: %v", err)
		}
		synctest.Wait()
		if held := s.Held(); len(held) != 0 {
			t.Errorf("held afterwards: %q", held)
		}
		release(t, acquire(t, l[0], "n"))
	})
}

func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l := open(t, 2)
		ask := func(want fencelock.Status) {
			t.Helper()
			got, err := l[1].Status(t.Context(), "n")
			if err != nil || got != want {
				t.Errorf("Status is %+v, %v, want %+v", got, err, want)
			}
		}
		ask(fencelock.Status{})
		lock := acquire(t, l[0], "n")
		next := make(chan fencelock.Lock)
		go func() { next <- acquire(t, l[1], "n") }()
		synctest.Wait()
		since := time.UnixMicro(int64(lock.Token()))
		ask(fencelock.Status{Held: true, Token: lock.Token(), Since: since, For: 3 * time.Second, Waiters: 1})
		release(t, lock)
		last := <-next
		release(t, last)
		ask(fencelock.Status{Token: last.Token()})
		if _, err := l[0].Status(t.Context(), ""); err == nil {
			t.Error("an empty name was accepted")
		}
	})
}

func TestServesInOrder(t *testing.T) {
	for what, processes := range map[string]int{"processes": 5, "goroutines": 1} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, l := open(t, processes+1)
				lock := acquire(t, l[processes], "n")
				order := make(chan int, 10)
				for i := range 5 {
					go func() {
						lock := acquire(t, l[i%processes], "n")
						order <- i
						release(t, lock)
					}()
					synctest.Wait()
				}
				release(t, lock)
				for want := range 5 {
					if got := <-order; got != want {
						t.Errorf("%d is served before %d", got, want)
					}
				}
			})
		})
	}
}

// R8: a dead waiter at the head of the queue blocks nobody for longer than its
// TTL.
func TestDeadWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l := open(t, 3)
		lock := acquire(t, l[0], "n")
		ctx, cancel := context.WithCancel(t.Context())
		for _, waiter := range l[1:] {
			go func() {
				if lock, err := waiter.Acquire(ctx, "n"); err == nil {
					release(t, lock)
				}
			}()
			synctest.Wait()
		}
		l[1].Link().BlackHole()
		defer l[1].Link().Heal()
		defer cancel()
		time.Sleep(4 * time.Second)
		start := time.Now()
		release(t, lock)
		synctest.Wait()
		st, err := l[0].Status(t.Context(), "n")
		if err != nil || st.Held || st.Waiters != 0 || time.Since(start) > 0 {
			t.Errorf("after %v: %+v, %v", time.Since(start), st, err)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	if _, err := New(nil); err == nil {
		t.Error("a nil Server was accepted")
	}
	if _, err := New(NewServer(), fencelock.TTL(time.Millisecond)); err == nil {
		t.Error("a TTL of 1 ms was accepted")
	}
	if _, err := New(NewServer(), nil); err == nil {
		t.Error("a nil option was accepted")
	}
}

func TestMint(t *testing.T) {
	const now = 1_000_000
	clock := time.UnixMicro(now)
	for _, c := range []struct {
		counter, least fencelock.Token
		n              int
		first, last    fencelock.Token
	}{
		{0, 0, 10, now, now},                               // no counter: one token
		{0, now + 5, 10, now + 6, now + 6},                 // above MinToken
		{1, 0, 10, now - 9, now},                           // microseconds that have passed
		{now - 4, 0, 10, now - 3, now},                     // only those since the last grant
		{now + 7, 0, 10, now + 8, now + 8},                 // ahead of the clock: one at a time
		{1, now - 3, 10, now - 2, now},                     // above MinToken
		{1, 0, 0, now, now},                                // at least one
		{now, now + day, 10, now + day + 1, now + day + 1}, // a day ahead, not more
	} {
		first, last, err := mint(c.counter, clock, c.least, c.n)
		if err != nil || first != c.first || last != c.last {
			t.Errorf("mint(%d, now, %d, %d) = %d, %d, %v, want %d, %d", c.counter, c.least, c.n, first, last, err, c.first, c.last)
		}
	}
	if _, _, err := mint(now, clock, now+day+1, 1); err == nil {
		t.Error("more than a day ahead was accepted")
	}
}
