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

// A provider starts, or names, the servers of one run.
type provider func() (*servers, error)

// provider returns what -real, -redis and -db ask for, and a function that ends
// what all runs share.
func (s *settings) provider() (provider, func() error, error) {
	nothing := func() error { return nil }
	switch {
	case s.Real:
		return realServers()
	case len(s.Redis) > 0:
		return func() (*servers, error) { return runningServers(s.Redis, s.Database) }, nothing, nil
	default:
		return embeddedServers, nothing, nil
	}
}
