package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencelock/fencelock"
)

type acquire = func(context.Context, string, ...fencelock.Option) (fencelock.Lock, error)

// A1: an acquire that is cancelled while its reply is on the way leaves
// nothing.
func cancelledAcquire(k *kit) {
	l, link := k.via()
	other := k.locker()
	k.release(k.acquire(l, k.name())) // connected
	link.Delay(200 * time.Millisecond)
	for _, acquire := range []acquire{l.Acquire, l.TryAcquire} {
		k.each(k.list(20), 20, func(name string) error {
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			start := time.Now()
			lock, err := acquire(ctx, name)
			switch d := time.Since(start); {
			case err == nil:
				_ = lock.Release(context.Background())
				return errors.New("the link was to delay all replies and did not")
			case !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fencelock.ErrHeld):
				return fmt.Errorf("cut short: %w, want its ctx's error", err)
			case d > 50*time.Millisecond+time.Second:
				return fmt.Errorf("returned after %v, its ctx ended after 50 ms", d)
			}
			return k.freeAgain(other, name)
		})
	}
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
	l, link := k.via()
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
	holder, waiter, third := k.locker(), k.locker(), k.locker()
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
				return fmt.Errorf("after Acquire returned a lock that is not held: %w", err)
			}
			if _, err := third.TryAcquire(context.Background(), name); !errors.Is(err, fencelock.ErrHeld) {
				return fmt.Errorf("after Acquire returned a lock, another's attempt says: %v", err)
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
		for _, acquire := range []acquire{l.Acquire, l.TryAcquire} {
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
		k.free(other, name, soon)
	}
}

// onTime checks that acquire ends with its ctx.
func (k *kit) onTime(acquire acquire, name string) error {
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

// A7: the server goes while an Acquire waits in its queue.
func waitQueued(k *kit) {
	l, link := k.via()
	other, names := k.locker(), k.list(20)
	locks := k.all(other, names)
	time.AfterFunc(300*time.Millisecond, link.BlackHole)
	k.each(names, len(names), func(name string) error {
		const bound = 600 * time.Millisecond
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		start := time.Now()
		_, err := l.Acquire(ctx, name)
		if d := time.Since(start); d > bound+time.Second || !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("returned after %v of %v: %w", d, bound, err)
		}
		return nil
	})
	link.Heal()
	for _, lock := range locks {
		k.release(lock)
	}
	for _, name := range names { // the waiters' places in the queue are given up
		k.free(other, name, soon)
	}
}

func waitRefused(k *kit) {
	if k.b.Refused == nil {
		k.Skip("NOT TESTED: the backend gives no Refused")
	}
	l := k.closing(k.b.Refused(k, k.short()))
	k.each(k.list(20), 20, func(name string) error { return k.onTime(l.Acquire, name) })
	k.each(k.list(20), 20, func(name string) error { return k.onTime(l.TryAcquire, name) })
}

// A6: a lock that was granted too long ago is not handed out.
func neverGrantedExpired(k *kit) {
	l, link := k.via(k.short())
	other, third, names := k.locker(), k.locker(), k.list(20)
	locks := k.all(other, names)
	type result struct {
		lock fencelock.Lock
		err  error
	}
	waiters := make(map[string]chan result)
	for _, name := range names {
		c := make(chan result, 1)
		waiters[name] = c
		go func() {
			lock, err := k.get(l, name)
			c <- result{lock, err}
		}()
	}
	<-time.After(k.b.TTL / 2) // by now all wait, as far as can be known
	link.Freeze()             // the grants are on their way, and stay there
	for _, lock := range locks {
		k.release(lock)
	}
	between := k.all(third, names) // until each grant has expired
	for _, lock := range between {
		k.release(lock)
	}
	link.Heal()
	for _, name := range names {
		r := <-waiters[name]
		if r.err != nil {
			if errors.Is(r.err, fencelock.ErrHeld) || errors.Is(r.err, context.DeadlineExceeded) {
				k.Errorf("after the link is healed: %v", r.err)
			}
			continue // what the client said of a server that it could not reach
		}
		if r.lock.Token() <= between[name].Token() {
			k.Errorf("Acquire returned the token %d after another has had %d", r.lock.Token(), between[name].Token())
		}
		if err := r.lock.Release(k.ctx(long)); err != nil && !errors.Is(err, fencelock.ErrLost) {
			k.Errorf("Release: %v", err)
		}
	}
}
