package main

import (
	"context"
	"time"
)

// servers are what the instances of a shop share.
type servers struct {
	redis    []string // addresses of the lock's three nodes
	database string   // as openDatabase takes it

	// step makes the lock's key on two of the three nodes die d earlier.
	step  func(ctx context.Context, lock string, d time.Duration) error
	close func() error
}

// stepped is how many of the three nodes have a clock that jumps.
const stepped = 2

// A provider starts, or names, the servers of one run. Their database has the
// shop's tables.
type provider func(context.Context) (*servers, error)

// provider returns what -real, -redis and -db ask for, and a function that ends
// what all runs share.
func (s *settings) provider(ctx context.Context) (provider, func() error, error) {
	switch {
	case s.Real:
		return realServers(ctx)
	case len(s.Redis) > 0:
		return runningServers(ctx, s.Redis, s.Database)
	default:
		return embeddedServers, func() error { return nil }, nil
	}
}
