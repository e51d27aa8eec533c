package mem

import (
	"context"
	"fmt"
	"sync"

	"github.com/fencelock/fencelock"
)

// Fence is a [fencelock.Fence] in memory. It is safe for concurrent use.
type Fence struct {
	mu    sync.Mutex
	names map[string]*seen
}

// seen is the greatest token that has claimed a name, and the greatest that
// has written.
type seen struct{ claimed, written fencelock.Token }

var _ fencelock.Fence = (*Fence)(nil)

// NewFence returns a Fence that admits every token.
func NewFence() *Fence { return &Fence{names: make(map[string]*seen)} }

// Admit claims name for t, see [fencelock.Fence].
func (f *Fence) Admit(ctx context.Context, name string, t fencelock.Token) error {
	return f.pass(ctx, name, t, false, nil)
}

// Write calls write if the fence admits t. Check and write take effect together:
// no later holder is admitted while write runs, which must not use the Fence.
func (f *Fence) Write(ctx context.Context, name string, t fencelock.Token, write func() error) error {
	return f.pass(ctx, name, t, false, write)
}

// WriteOnce is Write for data that every hold writes once: it is also refused
// after a write with the same token that returned nil.
func (f *Fence) WriteOnce(ctx context.Context, name string, t fencelock.Token, write func() error) error {
	return f.pass(ctx, name, t, true, write)
}

func (f *Fence) pass(ctx context.Context, name string, t fencelock.Token, once bool, write func() error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("mem: fence %q: %w", name, ctx.Err())
	case t < 1:
		return fmt.Errorf("mem: fence %q: %d is no token", name, t)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.names[name]
	if s == nil {
		s = &seen{}
		f.names[name] = s
	}
	least := s.claimed
	if once {
		least = max(least, s.written+1)
	}
	if t < least {
		return &fencelock.StaleError{Name: name, Have: t, Want: least}
	}
	s.claimed = t
	if write == nil {
		return nil
	}
	if err := write(); err != nil {
		return err
	}
	s.written = t
	return nil
}
