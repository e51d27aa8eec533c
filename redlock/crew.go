package redlock

import (
	"context"
	"sync"
)

// crew owns goroutines. Unlike a sync.WaitGroup it may be waited for with a ctx,
// and while more are started.
type crew struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when n becomes 0; nil if nobody waits
}

func (c *crew) spawn(f func()) {
	c.begin()
	go func() {
		defer c.end()
		f()
	}()
}

func (c *crew) begin() {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
}

func (c *crew) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
	if c.n == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// wait returns when no goroutine is left, or with ctx's error.
func (c *crew) wait(ctx context.Context) error {
	c.mu.Lock()
	if c.n == 0 {
		c.mu.Unlock()
		return nil
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
