package lease

import (
	"context"
	"sync"
	"testing"

	"github.com/fencelock/fencelock"
)

// The server of the tests costs next to nothing: the engine's own cost shows.

func BenchmarkSolo(b *testing.B) {
	l := benchLocker(b)
	b.ReportAllocs()
	for b.Loop() {
		k, err := l.Acquire(b.Context(), "a")
		if err != nil {
			b.Fatal(err)
		}
		_ = k.Release(b.Context())
	}
}

// Goroutines of one process on one name: nearly all holds are passed on.
func BenchmarkHot(b *testing.B) {
	l := benchLocker(b)
	b.ReportAllocs()
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for range b.N / 10 {
				k, err := l.Acquire(context.Background(), "a")
				if err != nil {
					b.Error(err)
					return
				}
				_ = k.Release(context.Background())
			}
		})
	}
	wg.Wait()
}

func benchLocker(b *testing.B) *Locker {
	set, err := Settings("bench", []fencelock.Option{fencelock.Prefix("")})
	if err != nil {
		b.Fatal(err)
	}
	return New(newServer(), set)
}
