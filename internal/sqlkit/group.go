package sqlkit

import (
	"context"
	"sync"
)

// Group is goroutines that somebody waits for. Unlike a sync.WaitGroup it may be
// waited for until a ctx ends, and while others join.
type Group struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n is 0; nil: nobody waits
}

// Go runs f in a goroutine of the group.
func (g *Group) Go(f func()) {
	g.mu.Lock()
	g.n++
	g.mu.Unlock()
	go func() {
		defer g.done()
		f()
	}()
}

func (g *Group) done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 && g.none != nil {
		close(g.none)
		g.none = nil
	}
}

// Wait waits until the group is empty or ctx ends, whose error it returns then.
func (g *Group) Wait(ctx context.Context) error {
	g.mu.Lock()
	if g.n == 0 {
		g.mu.Unlock()
		return nil
	}
	if g.none == nil {
		g.none = make(chan struct{})
	}
	none := g.none
	g.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
