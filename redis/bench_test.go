package redis_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/redis"
)

// The floor is what a lock without token, renewal or queue costs: SET NX PX and
// a script that compares and deletes.
var compareDelete = goredis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

func floor(ctx context.Context, c *goredis.Client, key string) error {
	var id [16]byte
	rand.Read(id[:])
	owner := hex.EncodeToString(id[:])
	if ok, err := c.SetNX(ctx, key, owner, 30*time.Second).Result(); err != nil || !ok {
		return fmt.Errorf("taken: %w", err)
	}
	return compareDelete.Run(ctx, c, []string{key}, owner).Err()
}

func ours(ctx context.Context, l *redis.Locker, name string) error {
	lock, err := l.Acquire(ctx, name)
	if err != nil {
		return err
	}
	return lock.Release(ctx)
}

func BenchmarkSolo(b *testing.B) { compare(b, 1) }

func BenchmarkPar(b *testing.B) { compare(b, 64) }

// compare runs the floor and ours by turns, so that what else the machine does
// falls on both.
func compare(b *testing.B, goroutines int) {
	s := testserver.SharedRedis(b)
	prefix := testserver.Prefix(b)
	client, client2 := dial(b, s.Addr()), dial(b, s.Addr())
	l, err := redis.New(client2)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	run := func(n int, f func(key string) error) time.Duration {
		var left atomic.Int64
		left.Store(int64(n))
		errs := make(chan error, goroutines)
		start := time.Now()
		for g := range goroutines {
			go func() {
				key := fmt.Sprint(prefix, g)
				for left.Add(-1) >= 0 {
					if err := f(key); err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		for range goroutines {
			if err := <-errs; err != nil {
				b.Error(err)
			}
		}
		return time.Since(start)
	}
	plain := func(key string) error { return floor(ctx, client, key) }
	locked := func(key string) error { return ours(ctx, l, key) }
	run(goroutines, plain)
	run(goroutines, locked)
	var floorTime, oursTime time.Duration
	b.ResetTimer()
	for done := 0; done < b.N; done += 2000 {
		n := min(2000, b.N-done)
		floorTime += run(n, plain)
		oursTime += run(n, locked)
	}
	b.ReportMetric(float64(b.N)/floorTime.Seconds(), "floor/s")
	b.ReportMetric(float64(b.N)/oursTime.Seconds(), "ours/s")
	b.ReportMetric(float64(floorTime)/float64(oursTime), "ratio")
	b.ReportMetric(0, "ns/op")
}
