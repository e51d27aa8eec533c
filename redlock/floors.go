package redlock

import (
	"sync"

	"github.com/fencelock/fencelock"
)

// floors remembers the greatest token seen for each name, so that the next
// proposal starts above it. To forget costs a second round, no more.
type floors struct {
	mu     sync.Mutex
	tokens map[string]fencelock.Token
}

const maxFloors = 10_000

func (f *floors) get(key string) fencelock.Token {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tokens[key]
}

func (f *floors) raise(key string, t fencelock.Token) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tokens == nil || len(f.tokens) >= maxFloors {
		f.tokens = make(map[string]fencelock.Token)
	}
	f.tokens[key] = max(f.tokens[key], t)
}
