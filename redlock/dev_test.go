package redlock

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
)

func TestDev(t *testing.T) {
	if os.Getenv("DEV") == "" {
		t.Skip()
	}
	nodes := start(t, 3)
	var wg sync.WaitGroup
	end := time.Now().Add(2 * time.Second)
	counts := make([]int, 4)
	var mu sync.Mutex
	for p := range 4 {
		l := dial(t, nodes.addrs(), fencelock.TTL(time.Second))
		for range 10 {
			wg.Go(func() {
				for time.Now().Before(end) {
					lock, err := l.Acquire(context.Background(), "x")
					if err != nil {
						t.Error(err)
						return
					}
					if os.Getenv("HOLD") != "" {
						time.Sleep(time.Millisecond)
					}
					mu.Lock()
					counts[p]++
					mu.Unlock()
					if err := lock.Release(context.Background()); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	time.Sleep(500 * time.Millisecond)
	m := nodes[0].Monitor()
	m1 := nodes[1].Monitor()
	m2 := nodes[2].Monitor()
	time.Sleep(120 * time.Millisecond)
	for i, mm := range []*interface{}{} {
		_ = i
		_ = mm
	}
	for i, c := range [][]any{conv(m.Calls()), conv(m1.Calls()), conv(m2.Calls())} {
		fmt.Println("node", i)
		for _, x := range c {
			fmt.Println("  ", x)
		}
	}
	wg.Wait()
	fmt.Println(counts)
	for _, s := range nodes {
		fmt.Println(s.Calls("evalsha"), s.Calls("publish"))
	}
}

func conv[T any](c []T) (out []any) {
	for _, x := range c {
		out = append(out, fmt.Sprintf("%.260v", x))
	}
	return
}
