package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/option"
	"github.com/fencelock/fencelock/internal/redisnode"
)

// ErrReplicas means that a lock was granted, but fewer replicas than MinReplicas
// asks for confirmed it in time. It has been released again.
var ErrReplicas = errors.New("redis: too few replicas have confirmed the lock")

type minReplicasKey struct{}

type replicas struct {
	n       int
	timeout time.Duration
}

// MinReplicas makes every grant wait (WAIT) until n replicas have confirmed it,
// at most for timeout, in milliseconds; if they have not, the lock is released and
// the error matches [ErrReplicas]. It narrows the hole that a failover can lose a
// lock, and does not close it: a replica without it may still be promoted. For
// New only. The default is 0. timeout must stay below the client's ReadTimeout.
func MinReplicas(n int, timeout time.Duration) fencelock.Option {
	return func(s *option.Set) { s.Put(minReplicasKey{}, replicas{n, timeout}) }
}

func replicasOf(set option.Set, client Client) (replicas, error) {
	r, ok := set.Own(minReplicasKey{}).(replicas)
	if !ok {
		return replicas{}, nil
	}
	var read time.Duration
	switch c := client.(type) {
	case *goredis.Client:
		read = c.Options().ReadTimeout
	case *goredis.ClusterClient:
		read = c.Options().ReadTimeout
	default:
		return r, fmt.Errorf("option MinReplicas needs a *redis.Client or *redis.ClusterClient, not a %T", client)
	}
	switch {
	case r.n < 1:
		return r, fmt.Errorf("option MinReplicas(%d, %v): want at least one replica", r.n, r.timeout)
	case r.timeout < time.Millisecond:
		return r, fmt.Errorf("option MinReplicas(%d, %v): the time-out is below 1ms", r.n, r.timeout)
	case read > 0 && r.timeout >= read:
		return r, fmt.Errorf("option MinReplicas(%d, %v): the time-out is not below the client's ReadTimeout, %v", r.n, r.timeout, read)
	}
	return r, nil
}

// run runs a script that grants or confirms a lock and, if asked for, waits for
// the replicas.
func (d *driver) run(ctx context.Context, s *redisnode.Script, keys []string, args ...string) (redisnode.Result, error) {
	if d.replicas.n == 0 {
		return d.node.Run(ctx, s, keys, args...)
	}
	res, confirmed, err := d.node.RunWait(ctx, s, keys, args, d.replicas.n, d.replicas.timeout)
	if err != nil {
		return res, err
	}
	reply, err := res.Strings()
	if err != nil || reply[0] != "granted" && reply[0] != "renewed" || confirmed >= d.replicas.n {
		return res, err
	}
	err = fmt.Errorf("%w: %d of %d within %v", ErrReplicas, confirmed, d.replicas.n, d.replicas.timeout)
	if _, released := d.giveUp(ctx, lease.Request{Key: keys[0], Attempt: args[0]}); released == nil {
		err = lease.Definite(err)
	}
	return res, err
}
