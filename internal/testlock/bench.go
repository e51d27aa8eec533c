package testlock

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
)

// Once acquires and releases name.
func Once(ctx context.Context, l fencelock.Locker, name string) error {
	lock, err := l.Acquire(ctx, name)
	if err != nil {
		return err
	}
	return lock.Release(ctx)
}

// Compare runs peer and ours by turns of so many calls, so that what else the
// machine does falls on both. Both are called from several goroutines, with the
// goroutine's number. It reports how often a second each ran under its name,
// and ours/peer as the ratio.
func Compare(b *testing.B, goroutines, turn int, name string, peer, ours func(goroutine int) error) {
	run := func(n int, f func(int) error) time.Duration {
		var left atomic.Int64
		left.Store(int64(n))
		errs := make(chan error, goroutines)
		start := time.Now()
		for g := range goroutines {
			go func() {
				for left.Add(-1) >= 0 {
					if err := f(g); err != nil {
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
	for range 20 { // connections and prepared statements
		run(goroutines, peer)
		run(goroutines, ours)
	}
	var peerTime, ourTime time.Duration
	b.ResetTimer()
	for done := 0; done < b.N; done += turn {
		n := min(turn, b.N-done)
		peerTime += run(n, peer)
		ourTime += run(n, ours)
	}
	b.ReportMetric(float64(b.N)/peerTime.Seconds(), name+"/s")
	b.ReportMetric(float64(b.N)/ourTime.Seconds(), "ours/s")
	b.ReportMetric(float64(peerTime)/float64(ourTime), "ratio")
	b.ReportMetric(0, "ns/op")
}
