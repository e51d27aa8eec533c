package locktest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
)

func closeEndsEverything(k *kit) {
	l, other, hers, his := k.locker(), k.locker(), k.name(), k.name()
	lock, his1 := k.acquire(l, hers), k.acquire(other, his)
	const waiters = 10
	ended := make(chan error, 2*waiters)
	for range waiters {
		for _, name := range []string{hers, his} {
			go func() {
				_, err := l.Acquire(context.Background(), name)
				ended <- err
			}()
		}
	}
	k.held(lock, 50*time.Millisecond)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if err := l.Close(k.ctx(long)); err != nil {
				k.Errorf("Close: %v", err)
			}
		})
	}
	all.Wait()
	if reason := k.lost(lock, soon).Reason; reason != fencelock.Closed {
		k.Errorf("the reason is %q, want %q", reason, fencelock.Closed)
	}
	for range 2 * waiters {
		select {
		case err := <-ended:
			if !errors.Is(err, fencelock.ErrClosed) {
				k.Errorf("a waiter at Close: %v, want ErrClosed", err)
			}
		case <-time.After(soon):
			k.Fatal("Close left a waiter waiting")
		}
	}
	if _, err := l.Acquire(k.ctx(long), hers); !errors.Is(err, fencelock.ErrClosed) {
		k.Errorf("Acquire after Close: %v", err)
	}
	if _, err := l.TryAcquire(k.ctx(long), hers); !errors.Is(err, fencelock.ErrClosed) {
		k.Errorf("TryAcquire after Close: %v", err)
	}
	if err := lock.Release(k.ctx(long)); !errors.Is(err, fencelock.ErrLost) {
		k.Errorf("Release after Close: %v", err)
	}
	next, err := other.TryAcquire(k.ctx(long), hers)
	if err != nil {
		k.Fatalf("Close has returned and the lock is not free: %v", err)
	}
	k.release(next)
	k.held(his1, 0)
	k.release(his1)
}

// Close undoes what it finds under way, and waits for that.
func closeUndoesPending(k *kit) {
	l, link := k.via()
	other, names := k.locker(), k.list(10)
	k.release(k.acquire(l, k.name())) // connected
	link.Delay(300 * time.Millisecond)
	ended := make(chan error, len(names))
	for _, name := range names {
		go func() {
			_, err := l.Acquire(context.Background(), name)
			ended <- err
		}()
	}
	probe := k.locker()
	k.until("the attempts have reached the server", long, func() bool {
		lock, err := probe.TryAcquire(context.Background(), names[0])
		if err == nil {
			k.release(lock)
		}
		return errors.Is(err, fencelock.ErrHeld)
	})
	if err := l.Close(k.ctx(long)); err != nil {
		k.Fatalf("Close: %v", err)
	}
	cut := 0
	for range names {
		if err := <-ended; err != nil {
			cut++
			if !errors.Is(err, fencelock.ErrClosed) {
				k.Errorf("an Acquire at Close: %v, want ErrClosed", err)
			}
		}
	}
	if cut == 0 {
		k.Error("all attempts were over before Close began: nothing was tested")
	}
	for _, name := range names {
		lock, err := other.TryAcquire(k.ctx(long), name)
		if err != nil {
			k.Fatalf("Close has returned and left something: %v", err)
		}
		k.release(lock)
	}
}
