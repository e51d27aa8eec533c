package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fencelock/fencelock"
)

// holding is the mode of a worker that takes many locks, holds them, and tells
// what that costs.
const (
	holding = "hold"
	held    = 10_000
)

// holdMany takes the locks. What it returns observes them being held.
func (o order) holdMany(l ours) (observe func() report, err error) {
	ctx := context.Background()
	var next atomic.Int64
	var failure atomic.Pointer[error]
	locks := make([]fencelock.Lock, held)
	var all sync.WaitGroup
	for range o.Goroutines {
		all.Go(func() {
			for i := next.Add(1) - 1; i < held; i = next.Add(1) - 1 {
				lock, err := l.l.Acquire(ctx, fmt.Sprint(o.Name, "/", i), fencelock.TTL(10*time.Second))
				if err != nil {
					failure.Store(&err)
					return
				}
				locks[i] = lock
			}
		})
	}
	all.Wait()
	if err := failure.Load(); err != nil {
		return nil, *err
	}
	return func() report {
		before := usage()
		time.Sleep(o.Lasts)
		r := report{CPU: usage() - before, Locks: held, Routines: runtime.NumGoroutine()}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		r.Heap = float64(m.HeapAlloc) / (1 << 20)
		for _, lock := range locks {
			if err := lock.Err(); err != nil {
				r.Failure = err.Error()
			}
		}
		return r
	}, nil
}

// usage is the CPU time that this process has taken so far.
func usage() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
