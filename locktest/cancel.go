package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencelock/fencelock"
)

// forever is a TTL that no case lives to see expire: what is free before then
// has been cleaned up.
const forever = 5 * time.Minute

// A1: an acquire that is cancelled while its reply is on the way leaves
// nothing.
func cancelledAcquire(k *kit) {
	l, link := k.via(fencelock.TTL(forever))
	other, names := k.locker(), k.list(20)
	link.Delay(200 * time.Millisecond)
	k.each(names, len(names), func(name string) error {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		lock, err := l.Acquire(ctx, name)
		switch d := time.Since(start); {
		case err == nil:
			return lock.Release(context.Background()) // the link was faster than asked
		case !errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("cut short: %w, want its ctx's error", err)
		case d > soon/4:
			return fmt.Errorf("returned after %v, its ctx ended after 50 ms", d)
		}
		return k.freeAgain(other, name)
	})
}

// freeAgain is free for any goroutine.
func (k *kit) freeAgain(other Locker, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	lock, err := other.Acquire(ctx, name)
	if err != nil {
		return fmt.Errorf("%q is not free %v after it was given up: %w", name, soon, err)
	}
	return lock.Release(context.Background())
}

// A23: the clean-up of a cancelled attempt does not overtake the attempt.
func cancelsThroughJitter(k *kit) {
	l, link := k.via(fencelock.TTL(forever))
	other := k.locker()
	k.each(k.list(5), 5, func(name string) error { return k.freeAgain(l, name) }) // connected
	link.Jitter(20 * time.Millisecond)
	k.each(k.list(50), 50, func(name string) error {
		for range k.rounds(20) {
			ctx, cancel := context.WithTimeout(context.Background(), rand.N(30*time.Millisecond))
			lock, err := l.Acquire(ctx, name)
			cancel()
			if err == nil {
				err = lock.Release(context.Background())
			} else if errors.Is(err, context.DeadlineExceeded) {
				err = nil
			}
			if err != nil {
				return err
			}
			if err := k.freeAgain(other, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// A8: an Acquire that is cancelled at the moment of its grant has the lock, or
// has an error and leaves the lock free.
func cancelAtGrant(k *kit) {
	holder, waiter, third := k.locker(fencelock.TTL(forever)), k.locker(fencelock.TTL(forever)), k.locker()
	round := func(name string, waiter Locker) error {
		lock, err := k.get(holder, name)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		type result struct {
			lock fencelock.Lock
			err  error
		}
		got := make(chan result, 1)
		go func() {
			lock, err := waiter.Acquire(ctx, name)
			got <- result{lock, err}
		}()
		time.AfterFunc(rand.N(2*time.Millisecond), cancel)
		<-time.After(rand.N(2 * time.Millisecond)) // meets the cancel at every moment
		if err := lock.Release(context.Background()); err != nil {
			return err
		}
		r := <-got
		switch {
		case r.err == nil:
			if err := r.lock.Err(); err != nil {
				return fmt.Errorf("Acquire returned a lock that is not held: %w", err)
			}
			if _, err := third.TryAcquire(context.Background(), name); !errors.Is(err, fencelock.ErrHeld) {
				return fmt.Errorf("Acquire returned a lock, another's attempt says: %v", err)
			}
			return r.lock.Release(context.Background())
		case !errors.Is(r.err, context.Canceled):
			return fmt.Errorf("cancelled: %w, want its ctx's error", r.err)
		}
		return k.freeAgain(third, name)
	}
	k.each(k.list(50), 50, func(name string) error {
		for i := range k.rounds(20) {
			if err := round(name, []Locker{waiter, holder}[i%2]); err != nil {
				return err
			}
		}
		return nil
	})
}

// A7: Acquire returns when its ctx ends, also if the server is gone.
func waitBlackHole(k *kit) {
	l, link := k.via()
	other := k.locker()
	held, free := k.list(10), k.list(10)
	k.release(k.acquire(l, k.name()))
	locks := k.all(other, held)
	k.each(append(held, free...), 20, func(name string) error { // a local line behind each first attempt
		for _, acquire := range []func(context.Context, string, ...fencelock.Option) (fencelock.Lock, error){l.Acquire, l.TryAcquire} {
			link.BlackHole()
			if err := k.onTime(acquire, name); err != nil {
				return err
			}
		}
		return nil
	})
	for _, lock := range locks {
		k.release(lock)
	}
	link.Heal()
	for _, name := range append(held, free...) {
		k.free(other, name, k.b.TTL+soon)
	}
}

// onTime checks that acquire ends with its ctx.
func (k *kit) onTime(acquire func(context.Context, string, ...fencelock.Option) (fencelock.Lock, error), name string) error {
	const bound = 300 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	start := time.Now()
	_, err := acquire(ctx, name)
	switch d := time.Since(start); {
	case err == nil:
		return fmt.Errorf("acquired %q from a server that is gone", name)
	case d > bound+time.Second:
		return fmt.Errorf("returned %v after a ctx of %v: %w", d, bound, err)
	case errors.Is(err, fencelock.ErrHeld):
		return fmt.Errorf("a server that never answered is taken for one that refuses: %w", err)
	}
	return nil
}

func waitRefused(k *kit) {
	if k.b.Refused == nil {
		k.Skip("NOT TESTED: the backend gives no Refused")
	}
	l := k.closing(k.b.Refused(k, k.options(nil)...))
	k.each(k.list(20), 20, func(name string) error { return k.onTime(l.Acquire, name) })
	k.each(k.list(20), 20, func(name string) error { return k.onTime(l.TryAcquire, name) })
}

// A6: a lock that was granted too long ago is not handed out.
func neverGrantedExpired(k *kit) {
	l, link := k.via()
	other, third, names := k.locker(), k.locker(), k.list(20)
	locks := k.all(other, names)
	time.AfterFunc(k.b.TTL/2, func() { // by now all wait, as far as can be known
		link.Freeze() // the grants are on their way
		for _, lock := range locks {
			_ = lock.Release(context.Background())
		}
		time.AfterFunc(3*k.b.TTL/2, link.Heal)
	})
	k.each(names, len(names), func(name string) error {
		lock, err := k.get(l, name)
		if err != nil {
			return err
		}
		if _, err := third.TryAcquire(context.Background(), name); !errors.Is(err, fencelock.ErrHeld) && lock.Err() == nil {
			return fmt.Errorf("Acquire returned a lock that another can have: %v", err)
		}
		return lock.Release(context.Background())
	})
}
