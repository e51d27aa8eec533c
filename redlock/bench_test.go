package redlock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
)

// BenchmarkSolo is one goroutine that acquires and releases one name, on the
// usual numbers of nodes.
func BenchmarkSolo(b *testing.B) {
	for _, n := range []int{1, 3, 5} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := dial(b, start(b, n).addrs())
			cycle(b, l, "x")
			for b.Loop() {
				cycle(b, l, "x")
			}
		})
	}
}

// BenchmarkFloor is what the same costs without tokens: SET NX PX at all nodes
// at once, then a script that compares and deletes, each waiting for all.
func BenchmarkFloor(b *testing.B) {
	nodes := clients(b, start(b, 5).addrs()...)
	script := redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)
	all := func(f func(redis.UniversalClient) error) {
		errs := make(chan error, len(nodes))
		for _, c := range nodes {
			go func() { errs <- f(c) }()
		}
		for range nodes {
			if err := <-errs; err != nil {
				b.Fatal(err)
			}
		}
	}
	ctx := context.Background()
	for b.Loop() {
		all(func(c redis.UniversalClient) error { return c.SetNX(ctx, "x", "me", 30*time.Second).Err() })
		all(func(c redis.UniversalClient) error { return script.Run(ctx, c, []string{"x"}, "me").Err() })
	}
}

// BenchmarkParallel is many goroutines with a name each.
func BenchmarkParallel(b *testing.B) {
	l := dial(b, start(b, 5).addrs())
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		name := fmt.Sprintf("%p", pb)
		for pb.Next() {
			cycle(b, l, name)
		}
	})
}

func cycle(b *testing.B, l fencelock.Locker, name string) {
	lock, err := l.Acquire(context.Background(), name)
	if err == nil {
		err = lock.Release(context.Background())
	}
	if err != nil {
		b.Fatal(err)
	}
}
