package torture

import (
	"context"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
)

type locker interface {
	fencelock.Locker
	Close(ctx context.Context) error
}

// backend is how one is started, and used by a worker.
type backend struct {
	ttl   time.Duration
	start func(t *testing.T) world
	open  func(servers []string, opts ...fencelock.Option) (locker, error)
}

var backends map[string]backend

// node is a server.
type node interface {
	Pause()
	Resume()
	Kill()
	Restart()
}

// world is what a backend stands on, and what can be done to it. What cannot is nil.
type world struct {
	nodes  []node
	leader func() node
	addrs  []string                      // of the nodes
	urls   func(addrs []string) []string // what a worker gets to reach them at other addresses

	step      func(d time.Duration) // the wall clocks of a majority
	wall      bool                  // the locks depend on them
	remove    func(name string)     // the record of a hold, by hand
	wipe      func()                // the memory of a minority
	compact   func()
	terminate func() // a session at the server
	session   bool   // a hold is a session, and ends with it

	residue func() []string // what is left of locks
}
