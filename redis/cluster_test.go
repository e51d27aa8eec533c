package redis_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/redis"
)

func dialCluster(t testing.TB, c *testserver.Cluster) *goredis.ClusterClient {
	t.Helper()
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: c.Addrs()})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

var oddNames = []string{
	"a", "ab", "a/b", "{", "}", "{}", "}{", "{}{a}", "{a}", "{a}b", "x{a}b{c}", "{{a}}", "a}b{c}d", "{a", "a}", "\x00", "{\x00}",
	"🔒", "{🔒}x", "{}🔒", "%7B", "a b", "'\"\r\n",
}

func TestCluster(t *testing.T) {
	c := testserver.RedisCluster(t)
	l, other := open(t, dialCluster(t, c)), open(t, dialCluster(t, c))

	t.Run("any name", func(t *testing.T) {
		locks := make(map[string]fencelock.Lock)
		for _, name := range oddNames {
			locks[name] = acquire(t, l, name)
			_, err := other.TryAcquire(long(t), name)
			require.ErrorIs(t, err, fencelock.ErrHeld, "%q", name)
			node := c.Node("fencelock/" + name)
			require.NotNil(t, node.Do("GET", "fencelock/"+name), "%q is the key itself", name)
		}
		for _, name := range oddNames {
			release(t, locks[name])
			require.Greater(t, cycle(t, other, name), locks[name].Token(), "%q", name)
		}
	})

	t.Run("waiters are woken", func(t *testing.T) {
		for i := range 10 { // the names lie on different nodes
			name := fmt.Sprint("w", i)
			lock := acquire(t, l, name)
			node := c.Node("fencelock/" + name)
			got := wants(t, node, other, name)
			start := time.Now()
			release(t, lock)
			next := receive(t, got)
			t.Log(time.Since(start))
			require.Greater(t, next.Token(), lock.Token())
			release(t, next)
			require.Zero(t, queued(node, "fencelock/"+name))
		}
	})

	t.Run("status", func(t *testing.T) {
		lock := acquire(t, l, "s")
		st, err := other.Status(long(t), "s")
		require.NoError(t, err)
		require.Equal(t, lock.Token(), st.Token)
		release(t, lock)
	})

	t.Run("fence", func(t *testing.T) {
		f := newFence(t, dialCluster(t, c))
		for i := range 10 {
			name := fmt.Sprint("order:", i)
			key := "{" + name + "}:total"
			require.NoError(t, f.Set(long(t), name, 2, key, i))
			stale(t, f.Set(long(t), name, 1, key, "late"), 1, 2)
			require.Equal(t, fmt.Sprint(i), c.Node(key).Do("GET", key))
		}
		require.NoError(t, f.Set(long(t), "{user:7}:a", 1, "{user:7}:b", "x"), "the tag of the name counts")
		require.ErrorContains(t, f.Set(long(t), "order:1", 3, "total", "x"), "total")
		require.NoError(t, f.Admit(long(t), "order:1", 2), "nothing was sent")
	})

	t.Run("tokens", func(t *testing.T) {
		source, err := redis.NewTokens(dialCluster(t, c))
		require.NoError(t, err)
		for _, name := range oddNames {
			a, err := source.Next(long(t), name)
			require.NoError(t, err)
			b, err := source.Next(long(t), name)
			require.NoError(t, err)
			require.Greater(t, b, a)
		}
	})

	// A11: one stuck node delays no other's locks.
	t.Run("stuck node", func(t *testing.T) {
		l := open(t, dialCluster(t, c), fencelock.TTL(2*time.Second))
		var locks []fencelock.Lock
		for i := range 30 {
			locks = append(locks, acquire(t, l, fmt.Sprint("stuck", i)))
		}
		stuck := c.Node("fencelock/stuck0")
		stuck.Pause()
		lost, held := 0, 0
		for _, lock := range locks {
			if c.Node("fencelock/"+lock.Name()) == stuck {
				eventually(t, func() bool { return lock.Err() != nil }, "the holder is told")
				require.ErrorIs(t, lock.Err(), fencelock.ErrLost)
				lost++
			}
		}
		for _, lock := range locks {
			if c.Node("fencelock/"+lock.Name()) != stuck {
				require.NoError(t, lock.Err(), "%s is on another node", lock.Name())
				held++
			}
		}
		require.Positive(t, lost)
		require.Positive(t, held)
		start := time.Now()
		for i := range 30 {
			if name := fmt.Sprint("new", i); c.Node("fencelock/"+name) != stuck {
				cycle(t, l, name)
			}
		}
		require.Less(t, time.Since(start), 10*time.Second)
		stuck.Resume()
		for _, lock := range locks {
			_ = lock.Release(long(t))
		}
	})
}

func TestMinReplicasInACluster(t *testing.T) {
	c := testserver.RedisCluster(t)
	l := open(t, dialCluster(t, c), redis.MinReplicas(1, 20*time.Millisecond))
	for i := range 5 {
		name := fmt.Sprint("n", i)
		_, err := l.Acquire(context.Background(), name)
		require.ErrorIs(t, err, redis.ErrReplicas)
		require.Nil(t, c.Node("fencelock/"+name).Do("GET", "fencelock/"+name))
	}
}
