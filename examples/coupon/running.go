package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// earlier takes ARGV[1] milliseconds from the life of KEYS[1].
var earlier = redis.NewScript(`
	local left = redis.call('PTTL', KEYS[1])
	if left > 0 then redis.call('PEXPIRE', KEYS[1], left - ARGV[1]) end
	return left`)

// runningServers are somebody's own, the same for all runs. Their clocks are not
// ours to move, so a step shortens the life of the lock's key by as much, on two
// nodes. What remains afterwards are a few counters, which expire.
func runningServers(ctx context.Context, nodes []string, database string) (provider, func() error, error) {
	if len(nodes) != 3 {
		return nil, nil, fmt.Errorf("the experiment runs on three Redis nodes, not %d", len(nodes))
	}
	if err := execute(ctx, database, createTables); err != nil {
		return nil, nil, err
	}
	clients := make([]*redis.Client, len(nodes))
	for i, address := range nodes {
		clients[i] = redis.NewClient(&redis.Options{Addr: address})
	}
	s := &servers{
		redis:    nodes,
		database: database,
		step: func(ctx context.Context, lock string, d time.Duration) error {
			for _, c := range clients[:stepped] {
				if err := earlier.Run(ctx, c, []string{lockPrefix + lock}, d.Milliseconds()).Err(); err != nil {
					return err
				}
			}
			return nil
		},
		close: func() error { return nil },
	}
	start := func(context.Context) (*servers, error) { return s, nil }
	stop := func() error {
		err := execute(context.WithoutCancel(ctx), database, dropTables)
		for _, c := range clients {
			err = errors.Join(err, c.Close())
		}
		return err
	}
	return start, stop, nil
}
