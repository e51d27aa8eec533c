package mem

import (
	"context"
	"sync"

	"github.com/fencelock/fencelock"
)

// Tokens is a [fencelock.TokenSource] that counts from 1 for each name. It is
// safe for concurrent use.
type Tokens struct {
	mu   sync.Mutex
	last map[string]fencelock.Token
}

var _ fencelock.TokenSource = (*Tokens)(nil)

// NewTokens returns a source that has minted nothing.
func NewTokens() *Tokens { return &Tokens{last: make(map[string]fencelock.Token)} }

// Next returns the next token of name. The error is ctx's.
func (s *Tokens) Next(ctx context.Context, name string) (fencelock.Token, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[name]++
	return s.last[name], nil
}
