package locktest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock"
)

// A14: goroutines of one process exclude each other; run with -race.
func excludesGoroutines(k *kit) {
	l, name, rounds := k.locker(), k.name(), k.rounds(40)
	counter, inside := 0, atomic.Int32{}
	k.each(k.names(50), 50, func(string) error {
		for range rounds {
			lock, err := k.get(l, name)
			if err != nil {
				return err
			}
			if n := inside.Add(1); n != 1 {
				return fmt.Errorf("%d goroutines hold one lock", n)
			}
			counter++
			inside.Add(-1)
			if err := lock.Release(context.Background()); err != nil {
				return err
			}
		}
		return nil
	})
	if counter != 50*rounds {
		k.Errorf("the counter is %d after %d increments", counter, 50*rounds)
	}
}

// A13 and the promise of the fence: tokens rise from hold to hold, through
// passes, releases and changes of process.
func tokensRise(k *kit) {
	const processes, goroutines = 4, 8
	name, rounds := k.name(), k.rounds(50)
	var lockers []Locker
	for i := range processes {
		if i%2 == 0 {
			lockers = append(lockers, k.locker())
		} else {
			lockers = append(lockers, k.locker(fencelock.Passes(3)))
		}
	}
	var tokens []fencelock.Token // guarded by the lock under test
	var mu sync.Mutex            // and by a real one, so that a failure is no data race
	k.each(k.names(processes*goroutines), processes*goroutines, func(string) error {
		mu.Lock()
		l := lockers[0]
		lockers = append(lockers[1:], l)
		mu.Unlock()
		for range rounds {
			lock, err := k.get(l, name)
			if err != nil {
				return err
			}
			mu.Lock()
			tokens = append(tokens, lock.Token())
			mu.Unlock()
			if err := lock.Release(context.Background()); err != nil {
				return err
			}
		}
		return nil
	})
	if len(tokens) != processes*goroutines*rounds {
		k.Errorf("%d holds, want %d", len(tokens), processes*goroutines*rounds)
	}
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			k.Fatalf("hold %d has token %d after %d", i, tokens[i], tokens[i-1])
		}
	}
}

// A13: an owner is an acquisition, not a process, and each has a greater token.
func ownersDiffer(k *kit) {
	l, other, name := k.locker(), k.locker(), k.name()
	var last fencelock.Token
	for i := range 6 {
		lock := k.acquire([]Locker{l, l, other}[i%3], name)
		if lock.Token() <= last {
			k.Fatalf("token %d after %d", lock.Token(), last)
		}
		last = lock.Token()
		k.taken(l, name)
		k.taken(other, name)
		k.release(lock)
	}
}

func passesZero(k *kit) {
	for _, passes := range []int{0, 4095} {
		var passed, granted atomic.Int32
		l := k.locker(fencelock.Passes(passes), fencelock.Observe(func(_ context.Context, e fencelock.Event) {
			switch {
			case e.Kind == fencelock.EventAcquire && e.Passed:
				passed.Add(1)
			case e.Kind == fencelock.EventAcquire:
				granted.Add(1)
			}
		}))
		name := k.name()
		k.each(k.list(10), 10, func(string) error {
			for range 20 {
				lock, err := k.get(l, name)
				if err != nil {
					return err
				}
				if err := lock.Release(context.Background()); err != nil {
					return err
				}
			}
			return nil
		})
		if n := passed.Load() + granted.Load(); n != 200 {
			k.Errorf("Passes(%d): %d acquire events, want 200", passes, n)
		}
		if passes == 0 && passed.Load() > 0 {
			k.Errorf("Passes(0): %d locks were passed on", passed.Load())
		}
	}
}

func minToken(k *kit) {
	l, other, name := k.locker(), k.locker(), k.name()
	lock := k.acquire(l, name)
	least := lock.Token() + 100_000 // not more than a tenth of a second if tokens are microseconds
	k.release(lock)
	got, err := other.TryAcquire(k.ctx(long), name, fencelock.MinToken(least))
	switch {
	case errors.Is(err, fencelock.ErrRegressed): // it cannot raise its tokens, and says so
		k.free(l, name, soon)
		return
	case err != nil:
		k.Fatal(err)
	case got.Token() <= least:
		k.Errorf("MinToken(%d) gave %d", least, got.Token())
	}
	k.release(got)
	again := k.acquire(l, name)
	if again.Token() <= got.Token() {
		k.Errorf("after MinToken: token %d after %d", again.Token(), got.Token())
	}
	k.release(again)
}

// One caller with a wrong clock must not spoil a name for everybody.
func minTokenFar(k *kit) {
	l, name := k.locker(), k.name()
	lock := k.acquire(l, name)
	was := lock.Token()
	k.release(lock)
	year := fencelock.Token(365 * 24 * time.Hour / time.Microsecond)
	for _, least := range []fencelock.Token{was + year, math.MaxInt64 - 1, math.MaxInt64} {
		for _, acquire := range []acquire{l.Acquire, l.TryAcquire} {
			_, err := acquire(k.ctx(long), name, fencelock.MinToken(least))
			if err == nil || errors.Is(err, fencelock.ErrHeld) || errors.Is(err, context.DeadlineExceeded) {
				k.Fatalf("MinToken(%d): %v, want a refusal", least, err)
			}
		}
	}
	lock = k.acquire(k.locker(), name)
	if t := lock.Token(); t <= was || t >= was+year {
		k.Errorf("after the refusals the token is %d, it was %d", t, was)
	}
	k.release(lock)
}

// A waiter that asks for more than a pass can give is served by a grant.
func minTokenOfWaiter(k *kit) {
	l, name := k.locker(), k.name()
	probe := k.acquire(l, name)
	least := probe.Token() + 10_000_000
	k.release(probe)
	second := k.twoInLine(l, name, nil, []fencelock.Option{fencelock.MinToken(least)})
	if second.err == nil && second.token <= least {
		k.Errorf("a waiter with MinToken(%d) got %d", least, second.token)
	} else if second.err != nil && !errors.Is(second.err, fencelock.ErrRegressed) {
		k.Error(second.err)
	}
	k.free(l, name, soon)
}

// A waiter gets the TTL that it asked for, not that of the hold before it.
func ttlOfWaiter(k *kit) {
	if k.b.FixedTTL {
		k.Skip("the TTL is fixed at New")
	}
	l := k.locker()
	for _, ttl := range []time.Duration{60 * k.b.TTL, 6 * k.b.TTL} {
		before := 66*k.b.TTL - ttl
		second := k.twoInLine(l, k.name(), []fencelock.Option{fencelock.TTL(before)}, []fencelock.Option{fencelock.TTL(ttl)})
		if second.err != nil {
			k.Error(second.err)
		} else if second.valid <= ttl/4 || second.valid > ttl+2*time.Second {
			k.Errorf("behind a hold of TTL(%v) a waiter with TTL(%v) got a lock valid for %v", before, ttl, second.valid)
		}
	}
}

type servedTo struct {
	token fencelock.Token
	valid time.Duration
	err   error
}

// twoInLine lets two goroutines of l wait for another process. The first gives
// the lock back at once, so that it could be passed to the second, whose result
// is returned.
func (k *kit) twoInLine(l Locker, name string, first, second []fencelock.Option) servedTo {
	holder := k.locker()
	lock := k.acquire(holder, name)
	results := make([]servedTo, 2)
	var both sync.WaitGroup
	for i, opts := range [][]fencelock.Option{first, second} {
		both.Go(func() {
			lock, err := k.get(l, name, opts...)
			if err != nil {
				results[i].err = err
				return
			}
			results[i] = servedTo{lock.Token(), lock.Valid(), nil}
			if err := lock.Release(context.Background()); err != nil {
				k.Error(err)
			}
		})
		k.held(lock, 50*time.Millisecond) // by now it is in line
	}
	k.release(lock)
	both.Wait()
	if results[0].err != nil {
		k.Error(results[0].err)
	}
	return results[1]
}

// A process that could pass a lock on for ever gives the others their turn.
func takesTurns(k *kit) {
	busy, other, name := k.locker(), k.locker(), k.name()
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				lock, err := busy.Acquire(ctx, name)
				if err != nil {
					if ctx.Err() == nil {
						k.Error(err)
					}
					return
				}
				<-time.After(2 * time.Millisecond) // work
				if err := lock.Release(context.Background()); err != nil {
					k.Error(err)
				}
			}
		})
	}
	k.until("the others are busy", soon, func() bool {
		lock, err := other.TryAcquire(ctx, name)
		if err == nil {
			k.release(lock)
		}
		return errors.Is(err, fencelock.ErrHeld)
	})
	for range 5 {
		start := time.Now()
		lock, err := k.get(other, name)
		if err != nil {
			k.Error(err)
			return
		}
		if d := time.Since(start); d > time.Second {
			k.Errorf("another process waited for its turn for %v", d)
		}
		k.release(lock)
		<-time.After(20 * time.Millisecond)
	}
}
