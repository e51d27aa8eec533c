package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/redis"
	"github.com/fencelock/fencelock/redlock"
)

func init() {
	for kind, nodes := range map[string]int{"redis": 1, "redlock-3": 3, "redlock-5": 5} {
		starters[kind] = func(m *machine) (s server) {
			var started []*testserver.Redis
			for range nodes {
				n := testserver.StartRedis(m)
				started = append(started, n)
				s.addrs = append(s.addrs, n.Addr())
			}
			s.commands = func() (n int) {
				for _, node := range started {
					n += node.Calls("evalsha", "eval", "set", "get", "del", "publish", "subscribe", "pexpire", "client|tracking")
				}
				return n
			}
			return s
		}
	}
	register(
		contender{who: "fencelock/redis", kind: "redis", open: ourRedis()},
		contender{who: "fencelock/redis, Passes(0)", kind: "redis", open: ourRedis(fencelock.Passes(0))},
		contender{who: "SET NX PX + compare-delete", kind: "redis", peer: true, floor: true, open: openFloor},
		contender{who: "redislock", kind: "redis", peer: true, open: openRedislock(100 * time.Millisecond)},
		contender{who: "redislock, retry 1 ms", kind: "redis", peer: true, open: openRedislock(time.Millisecond)},
		contender{who: "redsync", kind: "redis", peer: true, open: openRedsync()},
		contender{who: "redsync, retry 1 ms", kind: "redis", peer: true, open: openRedsync(redsync.WithRetryDelay(time.Millisecond))},
		contender{who: "rueidislock", kind: "redis", peer: true, open: openRueidislock},
		contender{who: "fencelock/redlock-3", kind: "redlock-3", open: ourRedlock},
		contender{who: "redsync-3", kind: "redlock-3", peer: true, open: openRedsync()},
		contender{who: "fencelock/redlock-5", kind: "redlock-5", open: ourRedlock},
		contender{who: "redsync-5", kind: "redlock-5", peer: true, open: openRedsync()},
		contender{who: "redsync-5, retry 1 ms", kind: "redlock-5", peer: true, open: openRedsync(redsync.WithRetryDelay(time.Millisecond))},
	)
}

func dial(addr string) *goredis.Client { return goredis.NewClient(&goredis.Options{Addr: addr}) }

func ourRedis(opts ...fencelock.Option) func([]string) (locker, error) {
	return func(addrs []string) (locker, error) {
		c := dial(addrs[0])
		l, err := redis.New(c, opts...)
		return ours{l, c.Close}, err
	}
}

func ourRedlock(addrs []string) (locker, error) {
	var nodes []goredis.UniversalClient
	for _, addr := range addrs {
		nodes = append(nodes, dial(addr))
	}
	l, err := redlock.New(nodes)
	return ours{l, func() (err error) {
		for _, n := range nodes {
			err = errors.Join(err, n.Close())
		}
		return err
	}}, err
}

// floorLock is what a lock without token, renewal or queue costs.
type floorLock struct{ *goredis.Client }

var compareDelete = goredis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

func openFloor(addrs []string) (locker, error) { return floorLock{dial(addrs[0])}, nil }

func (f floorLock) Lock(ctx context.Context, name string) (func(context.Context) error, error) {
	var id [16]byte
	rand.Read(id[:])
	owner := hex.EncodeToString(id[:])
	if ok, err := f.SetNX(ctx, name, owner, 30*time.Second).Result(); err != nil || !ok {
		return nil, fmt.Errorf("taken: %w", err)
	}
	return func(ctx context.Context) error { return compareDelete.Run(ctx, f, []string{name}, owner).Err() }, nil
}

type redislockLock struct {
	*goredis.Client
	l     *redislock.Client
	retry time.Duration
}

func openRedislock(retry time.Duration) func([]string) (locker, error) {
	return func(addrs []string) (locker, error) {
		c := dial(addrs[0])
		return redislockLock{c, redislock.New(c), retry}, nil
	}
}

func (r redislockLock) Lock(ctx context.Context, name string) (func(context.Context) error, error) {
	lock, err := r.l.Obtain(ctx, name, 30*time.Second, &redislock.Options{RetryStrategy: redislock.LinearBackoff(r.retry)})
	if err != nil {
		return nil, err
	}
	return lock.Release, nil
}

type redsyncLock struct {
	*redsync.Redsync
	opts  []redsync.Option
	close func() error
}

func openRedsync(opts ...redsync.Option) func([]string) (locker, error) {
	return func(addrs []string) (locker, error) {
		var pools []redsyncredis.Pool
		var clients []*goredis.Client
		for _, addr := range addrs {
			c := dial(addr)
			clients, pools = append(clients, c), append(pools, redsyncgoredis.NewPool(c))
		}
		return redsyncLock{redsync.New(pools...), append(opts, redsync.WithTries(1<<30), redsync.WithExpiry(30*time.Second)), func() (err error) {
			for _, c := range clients {
				err = errors.Join(err, c.Close())
			}
			return err
		}}, nil
	}
}

func (r redsyncLock) Lock(ctx context.Context, name string) (func(context.Context) error, error) {
	m := r.NewMutex(name, r.opts...)
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		_, err := m.UnlockContext(ctx)
		return err
	}, nil
}

func (r redsyncLock) Close() error { return r.close() }

type rueidisLock struct{ l rueidislock.Locker }

func openRueidislock(addrs []string) (locker, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: addrs}, KeyMajority: 1, NoLoopTracking: true,
	})
	return rueidisLock{l}, err
}

func (r rueidisLock) Lock(ctx context.Context, name string) (func(context.Context) error, error) {
	// The ctx that it gets also ends the hold, so it must not be the one of the wait.
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	_, unlock, err := r.l.WithContext(whole, name)
	stop()
	if err != nil {
		cancel()
		return nil, err
	}
	return func(context.Context) error { unlock(); cancel(); return nil }, nil
}

func (r rueidisLock) Close() error { r.l.Close(); return nil }
