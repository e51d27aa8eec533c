package main

import (
	"context"
	"errors"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/redis"
)

// nightly runs a job on one of many replicas. All call it, every night; the lock
// says who is at it, and a record behind a fence which night was done last. The
// lock alone would not do: who comes when the first has finished would do it again.
type nightly struct {
	locker fencelock.Locker
	client *goredis.Client
	fence  *redis.Fence
}

const (
	name = "nightly"
	done = "{nightly}:done" // the last night, in the slot of the fence's name
)

var errDone = errors.New("another replica has done it")

// run waits until the job of a night, such as 2026-12-01, is done, and reports
// whether it was done here. A replica that fails, or dies, is followed by the next
// one that waits: so nobody says Wait(0). The job's ctx ends if the lock is lost.
func (n nightly) run(ctx context.Context, night string, job func(ctx context.Context, token fencelock.Token) error) (bool, error) {
	err := fencelock.WithLock(ctx, n.locker, name, func(ctx context.Context, token fencelock.Token) error {
		if err := n.fence.Admit(ctx, name, token); err != nil { // claim, then read
			return err
		}
		last, err := n.client.Get(ctx, done).Result()
		switch {
		case err != nil && !errors.Is(err, goredis.Nil):
			return err
		case last >= night:
			return errDone
		}
		if err := job(ctx, token); err != nil {
			return err
		}
		return n.fence.Set(ctx, name, token, done, night) // refused if another replica has taken over
	})
	if errors.Is(err, errDone) {
		return false, nil
	}
	return err == nil, err
}
