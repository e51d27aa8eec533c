package mem_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/mem"
)

func Example() {
	ctx := context.Background()
	locker, err := mem.New(mem.NewServer())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close(ctx)

	err = fencelock.WithLock(ctx, locker, "invoices/2026-11", func(ctx context.Context, token fencelock.Token) error {
		fmt.Println("held:", token > 0)
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// held: true
	// error: <nil>
}

// A holder is paused for longer than its TTL. Its lock expires, somebody else
// gets it and writes; when the first one wakes, the fence refuses its write.
func Example_pausedHolder() {
	ctx := context.Background()
	server, fence := mem.NewServer(), mem.NewFence()
	first, _ := mem.New(server, fencelock.TTL(100*time.Millisecond))
	second, _ := mem.New(server)
	defer first.Close(ctx)
	defer second.Close(ctx)

	stock := 10
	write := func(ctx context.Context, token fencelock.Token, n int) error {
		return fence.Write(ctx, "stock", token, func() error { stock = n; return nil })
	}

	err := fencelock.WithLock(ctx, first, "stock", func(_ context.Context, token fencelock.Token) error {
		fence.Admit(ctx, "stock", token) // claim, then read
		seen := stock

		first.Link().Freeze() // the process stops, and its renewals with it
		err := fencelock.WithLock(ctx, second, "stock", func(ctx context.Context, token fencelock.Token) error {
			fence.Admit(ctx, "stock", token)
			return write(ctx, token, stock-1)
		})
		fmt.Println("second:", err)
		first.Link().Heal() // it wakes

		return write(ctx, token, seen-1)
	})
	fmt.Println("first is refused:", errors.Is(err, fencelock.ErrStale), "and has lost:", errors.Is(err, fencelock.ErrLost))
	fmt.Println("stock:", stock)
	// Output:
	// second: <nil>
	// first is refused: true and has lost: true
	// stock: 9
}

// Does your code stop when the lock is lost?
func ExampleServer_Expire() {
	server := mem.NewServer()
	locker, _ := mem.New(server, fencelock.TTL(30*time.Millisecond))
	defer locker.Close(context.Background())

	err := fencelock.WithLock(context.Background(), locker, "report", func(ctx context.Context, _ fencelock.Token) error {
		server.Expire("report")
		select {
		case <-ctx.Done(): // as it should
			return context.Cause(ctx)
		case <-time.After(10 * time.Second):
			return nil
		}
	})
	fmt.Println(errors.Is(err, fencelock.ErrLost))
	// Output: true
}

// What does your code do while another process has the lock?
func ExampleServer_Steal() {
	ctx := context.Background()
	server := mem.NewServer()
	locker, _ := mem.New(server)
	defer locker.Close(ctx)

	server.Steal("report", time.Hour)
	_, err := locker.TryAcquire(ctx, "report")
	fmt.Println(errors.Is(err, fencelock.ErrHeld))
	// Output: true
}

// What does your code do while the server hangs?
func ExampleServer_Pause() {
	server := mem.NewServer()
	locker, _ := mem.New(server)
	defer locker.Close(context.Background())

	server.Pause()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := locker.Acquire(ctx, "report")
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.Is(err, fencelock.ErrHeld))
	server.Resume()
	// Output: true false
}
