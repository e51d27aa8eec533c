package fencelock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/mem"
)

// newLocker stands for redis.New(client) or another backend's New.
func newLocker(server *mem.Server, opts ...fencelock.Option) *mem.Locker {
	l, err := mem.New(server, opts...)
	if err != nil {
		panic(err)
	}
	return l
}

// A critical section: the function runs while the lock is held, its ctx ends if
// the lock is lost, and the token goes with every write.
func ExampleWithLock() {
	locker, fence := newLocker(mem.NewServer()), mem.NewFence()
	ctx := context.Background()

	err := fencelock.WithLock(ctx, locker, "invoices/2026-11",
		func(ctx context.Context, token fencelock.Token) error {
			if err := fence.Admit(ctx, "invoices/2026-11", token); err != nil {
				return err // a later holder has been here
			}
			fmt.Println("settling once")
			return nil
		}, fencelock.TTL(10*time.Second))

	fmt.Println(err)
	// Output:
	// settling once
	// <nil>
}

// A job that runs on every replica and should run once: whoever finds the lock
// held has nothing to do.
func ExampleWithLock_try() {
	server := mem.NewServer()
	here, there := newLocker(server), newLocker(server)
	ctx := context.Background()

	lock, _ := there.Acquire(ctx, "nightly")
	err := fencelock.WithLock(ctx, here, "nightly",
		func(context.Context, fencelock.Token) error { return nil }, fencelock.Wait(0))
	if errors.Is(err, fencelock.ErrHeld) {
		fmt.Println("another replica runs it")
	}
	_ = lock.Release(ctx)
	// Output: another replica runs it
}

// What the fence is for: a holder whose lock has gone wakes up and writes.
func ExampleFence() {
	server, fence := mem.NewServer(), mem.NewFence()
	a, b := newLocker(server), newLocker(server)
	ctx := context.Background()

	old, _ := a.Acquire(ctx, "balance")
	server.Expire("balance") // the holder sleeps, its TTL passes
	lock, _ := b.Acquire(ctx, "balance")

	fmt.Println(fence.Admit(ctx, "balance", lock.Token()))
	err := fence.Admit(ctx, "balance", old.Token()) // the old holder wakes up
	fmt.Println(errors.Is(err, fencelock.ErrStale))
	// Output:
	// <nil>
	// true
}

// A Lock in hand, for work that is no function call. Lost is closed in time to
// stop before anybody else can have the lock.
func ExampleLock() {
	locker := newLocker(mem.NewServer())
	lock, err := locker.Acquire(context.Background(), "leader", fencelock.Wait(5*time.Second)) // or TryAcquire
	if errors.Is(err, fencelock.ErrHeld) {
		return // somebody else has it: the error is a *HeldError that says for how long at least
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lock.Release(context.Background())
	fmt.Println(lock.Token() > 0, lock.Valid() > 0)
	select {
	case <-lock.Lost():
		fmt.Println(lock.Err())
	case <-time.After(time.Millisecond):
		fmt.Println("still held")
	}
	// Output:
	// true true
	// still held
}

func ExampleObserve() {
	locker := newLocker(mem.NewServer(), fencelock.Observe(func(_ context.Context, e fencelock.Event) {
		fmt.Println(e.Kind, e.Name, e.Err)
	}))
	ctx := context.Background()
	lock, _ := locker.Acquire(ctx, "a")
	_ = lock.Release(ctx)
	// Output:
	// acquire a <nil>
	// release a <nil>
}

// The errors tell the conditions apart.
func ExampleHeldError() {
	server := mem.NewServer()
	there, here := newLocker(server), newLocker(server)
	ctx := context.Background()
	lock, _ := there.Acquire(ctx, "a", fencelock.TTL(time.Minute))
	defer lock.Release(ctx)

	_, err := here.TryAcquire(ctx, "a")
	var held *fencelock.HeldError
	if errors.As(err, &held) {
		fmt.Printf("%s: try again in %v\n", held.Name, held.For.Round(time.Minute))
	}

	ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err = here.Acquire(ctx, "a")
	fmt.Println(errors.Is(err, fencelock.ErrHeld), errors.Is(err, context.DeadlineExceeded))
	// Output:
	// a: try again in 1m0s
	// true true
}

func ExampleMinToken() {
	locker := newLocker(mem.NewServer())
	ctx := context.Background()
	seen := fencelock.Token(time.Now().Add(time.Hour).UnixMicro()) // what the store has admitted so far
	lock, err := locker.Acquire(ctx, "a", fencelock.MinToken(seen))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lock.Token() > seen, lock.Release(ctx))
	// Output: true <nil>
}

// Who waits gets the lock in order; who does not want to wait for long says so.
func ExampleWait() {
	server := mem.NewServer()
	here, there := newLocker(server), newLocker(server)
	ctx := context.Background()
	lock, _ := there.Acquire(ctx, "a")

	_, err := here.Acquire(ctx, "a", fencelock.Wait(10*time.Millisecond))
	fmt.Println(errors.Is(err, fencelock.ErrHeld), errors.Is(err, context.DeadlineExceeded))
	_ = lock.Release(ctx)
	// Output: true false
}

// A TTL says how long others wait for a holder that died, not how long one may
// hold: this lock is renewed every 10 ms.
func ExampleTTL() {
	locker := newLocker(mem.NewServer(), fencelock.TTL(30*time.Millisecond))
	ctx := context.Background()
	lock, _ := locker.Acquire(ctx, "a")
	select {
	case <-lock.Lost():
		fmt.Println(lock.Err())
	case <-time.After(100 * time.Millisecond):
		fmt.Println("still held")
	}
	fmt.Println(lock.Release(ctx))
	// Output:
	// still held
	// <nil>
}

// Two services on one server do not meet if their prefixes differ.
func ExamplePrefix() {
	server := mem.NewServer()
	billing, shipping := newLocker(server, fencelock.Prefix("billing/")), newLocker(server, fencelock.Prefix("shipping/"))
	ctx := context.Background()
	a, _ := billing.TryAcquire(ctx, "nightly")
	b, err := shipping.TryAcquire(ctx, "nightly")
	fmt.Println(err, server.Held())
	fmt.Println(a.Release(ctx), b.Release(ctx))
	// Output:
	// <nil> [billing/nightly shipping/nightly]
	// <nil> <nil>
}

// Without passes every acquisition goes to the server, as those who count them
// there may want it.
func ExamplePasses() {
	locker := newLocker(mem.NewServer(), fencelock.Passes(0))
	lock, err := locker.Acquire(context.Background(), "a")
	fmt.Println(err, lock.Release(context.Background()))
	// Output: <nil> <nil>
}

// Where a backend is polled, such as mysql.NewLease, polls can be rarer.
func ExampleBackoff() {
	locker := newLocker(mem.NewServer(), fencelock.Backoff(50*time.Millisecond, time.Second))
	lock, err := locker.Acquire(context.Background(), "a")
	fmt.Println(err, lock.Release(context.Background()))
	// Output: <nil> <nil>
}

// An operator ends the hold of a process that hangs. Its holder is told at its next
// renewal, and a fence refuses what it writes from when the next one has claimed.
func ExampleBreaker() {
	server := mem.NewServer()
	holder, operator := newLocker(server, fencelock.TTL(30*time.Millisecond)), newLocker(server)
	ctx := context.Background()
	lock, _ := holder.Acquire(ctx, "report")

	var b fencelock.Breaker = operator
	status, _ := b.Status(ctx, "report")
	fmt.Println(status.Held, b.Break(ctx, "report", status.Token))
	<-lock.Lost()
	fmt.Println(lock.Err() != nil)
	// Output:
	// true <nil>
	// true
}
