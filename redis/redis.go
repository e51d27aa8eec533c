// Package redis locks by one Redis: a single server, one behind Sentinel, or a
// Redis Cluster; also Valkey.
//
//	client := goredis.NewClient(&goredis.Options{Addr: "localhost:6379"})
//	locker, err := redis.New(client)
//	...
//	err = fencelock.WithLock(ctx, locker, "invoices/2026-11", work)
//
// A lock is a plain string at exactly prefix + name with its TTL, so that other
// clients that use SET NX PX see and respect it, and are respected. A companion
// key of the same hash slot, {prefix+name}:fencelock:, keeps the token
// counter, the queue of waiting processes and the last dead attempts; it expires
// 7 days after the last grant.
//
// Tokens are microseconds of the server's clock, raised above the counter, so
// they keep rising even if the counter is lost (a failover to a stale replica,
// FLUSHALL, eviction), unless the new server's clock is then behind the last
// grant, or ahead of it by fewer microseconds than a grant has passes.
// A name's lock itself does not survive the loss of an acknowledged write:
// then there are two holders, and the later has the greater token.
// [MinReplicas] narrows that hole.
//
// Waiting processes queue at the server, first come, first served. A release
// grants the lock to the next one in the same script and tells it by pub/sub,
// on one connection per Locker that lasts from the first waiter until the Locker
// is idle. In a Cluster the next one is woken and tries for itself. Where
// pub/sub is not allowed (an ACL without &fencelock/*), and behind a plain SET NX
// holder, waiting processes poll.
//
// Needs Redis 6.2 or later, or Valkey, without an evicting maxmemory-policy.
package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/option"
	"github.com/fencelock/fencelock/internal/redisnode"
)

// Client is what a Locker needs of your client: every redis.UniversalClient of
// go-redis is one. It is never closed nor changed. Its time-outs bound the calls
// that are abandoned when a ctx ends, so it should have some.
type Client interface {
	Process(ctx context.Context, cmd goredis.Cmder) error
	Pipeline() goredis.Pipeliner
	Subscribe(ctx context.Context, channels ...string) *goredis.PubSub
}

// Locker implements fencelock.Locker. It is safe for concurrent use.
type Locker struct {
	engine *lease.Locker
	driver *driver
}

// New returns a Locker on client. It sends nothing yet.
func New(client Client, opts ...fencelock.Option) (*Locker, error) {
	set, err := lease.Settings("redis", opts, minReplicasKey{})
	if err != nil {
		return nil, err
	}
	node, err := redisnode.New(client)
	if err != nil {
		return nil, fmt.Errorf("fencelock: redis.New: %w", err)
	}
	d := newDriver(node)
	if d.replicas, err = replicasOf(set, client); err != nil {
		return nil, fmt.Errorf("fencelock: redis.New: %w", err)
	}
	l := &Locker{engine: lease.New(d, set), driver: d}
	if set.Given(option.Observe) {
		d.warn = l.engine.Warn
	}
	return l, nil
}

// Acquire waits until it holds name; see fencelock.Locker.
func (l *Locker) Acquire(ctx context.Context, name string, opts ...fencelock.Option) (fencelock.Lock, error) {
	return l.engine.Acquire(ctx, name, opts...)
}

// TryAcquire makes one attempt; see fencelock.Locker.
func (l *Locker) TryAcquire(ctx context.Context, name string, opts ...fencelock.Option) (fencelock.Lock, error) {
	return l.engine.TryAcquire(ctx, name, opts...)
}

// Status asks the server about name. A holder that is a plain SET NX client has
// no token, and cannot be ended by Break.
func (l *Locker) Status(ctx context.Context, name string) (fencelock.Status, error) {
	return l.engine.Status(ctx, name)
}

// Break ends a hold from outside; see fencelock.Breaker.
func (l *Locker) Break(ctx context.Context, name string, t fencelock.Token) error {
	return l.engine.Break(ctx, name, t)
}

// Close ends all waits, tells the holders that their locks are lost and releases
// them, and waits for clean-ups until ctx ends; then they go on in the
// background. The client stays open. Close may be called again.
func (l *Locker) Close(ctx context.Context) error {
	if err := l.engine.Close(ctx); err != nil {
		return err
	}
	return l.driver.node.Wait(ctx)
}

// token reads what the server keeps as a token, 0 if it is none.
func token(s string) fencelock.Token {
	t, err := strconv.ParseInt(s, 10, 64)
	if err != nil || t < 0 {
		return 0
	}
	return fencelock.Token(t)
}

// millis reads a PTTL, 0 if there is none.
func millis(s string) time.Duration {
	ms, err := strconv.ParseInt(s, 10, 64)
	if err != nil || ms < 0 {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}
