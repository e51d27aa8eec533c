package migrating

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/redis"
	"github.com/fencelock/fencelock/redlock"
)

func redsyncOld(ctx context.Context, client *goredis.Client, report func(context.Context) error) error {
	mutex := redsync.New(redsyncredis.NewPool(client)).NewMutex("report", redsync.WithExpiry(30*time.Second))
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	defer mutex.UnlockContext(ctx)
	return report(ctx) // it has 30 seconds, and is not told when they are over
}

func redsyncNew(ctx context.Context, client *goredis.Client, report func(context.Context, fencelock.Token) error) error {
	locker, err := redis.New(client, fencelock.Prefix("")) // once, for all names
	if err != nil {
		return err
	}
	return fencelock.WithLock(ctx, locker, "report", report) // its ctx ends if the lock is lost
}

func redsyncOfThreeOld(ctx context.Context, a, b, c *goredis.Client, report func(context.Context) error) error {
	rs := redsync.New(redsyncredis.NewPool(a), redsyncredis.NewPool(b), redsyncredis.NewPool(c))
	mutex := rs.NewMutex("report", redsync.WithExpiry(30*time.Second))
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	defer mutex.UnlockContext(ctx)
	return report(ctx)
}

func redsyncOfThreeNew(ctx context.Context, a, b, c *goredis.Client, report func(context.Context, fencelock.Token) error) error {
	locker, err := redlock.New([]goredis.UniversalClient{a, b, c}, fencelock.Prefix(""))
	if err != nil {
		return err
	}
	return fencelock.WithLock(ctx, locker, "report", report)
}

func redislockOld(ctx context.Context, client *goredis.Client, report func(context.Context) error) error {
	lock, err := redislock.New(client).Obtain(ctx, "report", 30*time.Second, nil)
	if err != nil {
		return err // redislock.ErrNotObtained
	}
	defer lock.Release(ctx)
	return report(ctx) // call lock.Refresh in time, and stop if it fails
}

func redislockNew(ctx context.Context, client *goredis.Client, report func(context.Context, fencelock.Token) error) error {
	locker, err := redis.New(client, fencelock.Prefix(""))
	if err != nil {
		return err
	}
	// Without Wait(0) it would wait, as Obtain does with a RetryStrategy.
	return fencelock.WithLock(ctx, locker, "report", report, fencelock.Wait(0))
}

func rueidislockOld(ctx context.Context, addr string, report func(context.Context) error) error {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}},
		KeyMajority:  1,
	})
	if err != nil {
		return err
	}
	defer locker.Close()
	ctx, cancel, err := locker.WithContext(ctx, "report")
	if err != nil {
		return err
	}
	defer cancel()
	return report(ctx)
}

func rueidislockNew(ctx context.Context, client *goredis.Client, report func(context.Context, fencelock.Token) error) error {
	locker, err := redis.New(client, fencelock.Prefix("rueidislock:0:"))
	if err != nil {
		return err
	}
	return fencelock.WithLock(ctx, locker, "report", report)
}
