package migrating

import (
	"context"
	"errors"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
)

func TestMain(m *testing.M) {
	// Of Lockers that nobody closes, something stays for one TTL.
	testserver.Main(m,
		goleak.IgnoreAnyFunction("github.com/fencelock/fencelock/internal/redisnode.(*subscriber).run"),
		goleak.IgnoreAnyFunction("github.com/fencelock/fencelock/etcd.(*session).carry"))
}

// pair is an old call and the new one for the same lock.
type pair struct {
	old func(ctx context.Context, report func(context.Context) error) error
	new func(ctx context.Context, report func(context.Context, fencelock.Token) error) error
}

// A second caller waits this long for a lock that it cannot have.
const short = 300 * time.Millisecond

// exclude says that neither runs while the other does.
func (p pair) exclude(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, p.old(ctx, func(context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, short)
		defer cancel()
		err := p.new(ctx, func(context.Context, fencelock.Token) error { return errors.New("both hold it") })
		require.ErrorIs(t, err, fencelock.ErrHeld)
		return nil
	}))
	require.NoError(t, p.new(ctx, func(_ context.Context, token fencelock.Token) error {
		require.Positive(t, token)
		ctx, cancel := context.WithTimeout(ctx, short)
		defer cancel()
		ran := false
		err := p.old(ctx, func(context.Context) error { ran = true; return nil })
		require.Error(t, err)
		require.False(t, ran)
		return nil
	}))
	require.NoError(t, p.old(ctx, func(context.Context) error { return nil }), "and it is free in the end")
}

// apart says that they know nothing of each other.
func (p pair) apart(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ran := false
	require.NoError(t, p.old(ctx, func(ctx context.Context) error {
		return p.new(ctx, func(context.Context, fencelock.Token) error { ran = true; return nil })
	}))
	require.True(t, ran)
}

func redisClient(t *testing.T, s *testserver.Redis) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{Addr: s.Addr()})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

type (
	oldCall = func(context.Context) error
	newCall = func(context.Context, fencelock.Token) error
)

func TestRedis(t *testing.T) {
	s := testserver.StartRedis(t)
	c := redisClient(t, s)
	for name, p := range map[string]pair{
		"redsync": {
			func(ctx context.Context, f oldCall) error { return redsyncOld(ctx, c, f) },
			func(ctx context.Context, f newCall) error { return redsyncNew(ctx, c, f) },
		},
		"redislock": {
			func(ctx context.Context, f oldCall) error { return redislockOld(ctx, c, f) },
			func(ctx context.Context, f newCall) error { return redislockNew(ctx, c, f) },
		},
		"rueidislock": {
			func(ctx context.Context, f oldCall) error { return rueidislockOld(ctx, s.Addr(), f) },
			func(ctx context.Context, f newCall) error { return rueidislockNew(ctx, c, f) },
		},
	} {
		t.Run(name, p.exclude)
	}
}

func TestRedsyncOfThree(t *testing.T) {
	var c [3]*goredis.Client
	for i := range c {
		c[i] = redisClient(t, testserver.StartRedis(t))
	}
	pair{
		func(ctx context.Context, f oldCall) error { return redsyncOfThreeOld(ctx, c[0], c[1], c[2], f) },
		func(ctx context.Context, f newCall) error { return redsyncOfThreeNew(ctx, c[0], c[1], c[2], f) },
	}.exclude(t)
}

func TestEtcd(t *testing.T) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{testserver.SharedEtcd(t).Addr()}})
	require.NoError(t, err)
	defer client.Close()
	pair{
		func(ctx context.Context, f oldCall) error { return etcdOld(ctx, client, f) },
		func(ctx context.Context, f newCall) error { return etcdNew(ctx, client, f) },
	}.apart(t)
}

func TestZooKeeper(t *testing.T) {
	addr := testserver.SharedZooKeeper(t).Addr()
	conn, _, err := gozk.Connect([]string{addr}, 10*time.Second, gozk.WithLogInfo(false))
	require.NoError(t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, zkOld(conn, func() error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err := zkNew(ctx, []string{addr}, func(context.Context, fencelock.Token) error { return errors.New("both hold it") })
		require.ErrorIs(t, err, fencelock.ErrHeld)
		return nil
	}))
	// The old one waits without a bound.
	held, entered := make(chan struct{}), make(chan error, 1)
	require.NoError(t, zkNew(ctx, []string{addr}, func(context.Context, fencelock.Token) error {
		go func() {
			entered <- zkOld(conn, func() error {
				select {
				case <-held:
					return nil
				default:
					return errors.New("both hold it")
				}
			})
		}()
		require.Eventually(t, func() bool {
			queue, _, err := conn.Children("/locks/report")
			return err == nil && len(queue) == 2
		}, 20*time.Second, 5*time.Millisecond, "it is in the queue")
		close(held)
		return nil
	}))
	require.NoError(t, <-entered)
}

func TestPostgres(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), testserver.SharedPostgres(t).NewDatabase(t).URL())
	require.NoError(t, err)
	defer pool.Close()
	ran := false
	require.NoError(t, pglockNew(t.Context(), pool, func(_ context.Context, token fencelock.Token) error {
		ran = token > 0
		return nil
	}))
	require.True(t, ran)
}
