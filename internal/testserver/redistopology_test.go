package testserver

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestPairCutAndPromote(t *testing.T) {
	ctx, p := context.Background(), RedisPair(t)
	c := redis.NewClient(&redis.Options{Addr: p.Primary.Addr(), PoolSize: 1})
	defer c.Close()
	require.NoError(t, c.Set(ctx, "k", "1", 0).Err())
	require.Equal(t, int64(1), c.Wait(ctx, 1, 30*time.Second).Val())
	require.Equal(t, "1", p.Replica.Do("GET", "k"))

	p.Link.Cut()
	require.NoError(t, c.Set(ctx, "k", "2", 0).Err())
	require.Equal(t, int64(0), c.Wait(ctx, 1, 50*time.Millisecond).Val())
	_, err := p.Replica.Try("SET", "k", "3")
	require.ErrorContains(t, err, "READONLY")
	p.Promote()
	require.Equal(t, "1", p.Replica.Do("GET", "k"), "the cut-off write is lost")
	p.Replica.Do("SET", "k", "3")
	require.Equal(t, "2", p.Primary.Do("GET", "k"))
}

func TestPairFollowsAgainAfterHeal(t *testing.T) {
	p := RedisPair(t)
	p.Link.Cut()
	p.Primary.Do("SET", "k", "1")
	p.Link.Heal()
	p.WaitSynced()
	require.Equal(t, "1", p.Replica.Do("GET", "k"))
}

func TestCluster(t *testing.T) {
	c := RedisCluster(t)
	ctx := context.Background()
	cc := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	defer cc.Close()
	used := map[*Redis]bool{}
	for i := range 50 {
		k := fmt.Sprint("key", i)
		require.NoError(t, cc.Set(ctx, k, i, 0).Err())
		node := c.Node(k)
		require.Equal(t, fmt.Sprint(i), node.Do("GET", k))
		used[node] = true
	}
	require.Len(t, used, clusterSize)

	for _, k := range []string{"", "a", "{a}b", "b{a}", "{}a", "{{a}}", "a{b", "}a{b}{c}"} {
		require.Equal(t, int64(clusterSlot(k)), c.Nodes[0].Do("CLUSTER", "KEYSLOT", k), k)
	}
	c.Nodes[0].Pause()
	for i := range 50 {
		if k := fmt.Sprint("key", i); c.Node(k) != c.Nodes[0] {
			require.NoError(t, cc.Set(ctx, k, i, 0).Err(), "the other nodes go on")
		}
	}
	c.Nodes[0].Resume()
}

func TestCallsCountsCommandsAlsoInScripts(t *testing.T) {
	r := StartRedis(t)
	before := r.Calls("SET")
	r.Do("SET", "k", "v")
	r.Do("EVAL", "return redis.call('set', KEYS[1], 'w')", "1", "k")
	require.Equal(t, 2, r.Calls("set")-before)
	require.Equal(t, 1, r.Calls("eval"))
	require.Greater(t, r.Calls(), 3)
}

func TestMonitorSeesWhatIsSent(t *testing.T) {
	r := StartRedis(t)
	m := r.Monitor()
	odd := "a \"quoted\" \\ b\r\n\x00\xff ü [0 lua]"
	r.Do("SET", odd, "v")
	r.Do("EVAL", "return redis.call('get', KEYS[1])", "1", odd)
	calls := m.Calls()
	require.Len(t, calls, 3)
	require.Equal(t, []string{"SET", odd, "v"}, calls[0].Args)
	require.Equal(t, "EVAL", calls[1].Args[0])
	require.Equal(t, Call{From: "lua", Args: []string{"get", odd}}, calls[2])
	require.Empty(t, m.Calls(), "only what is new")
}

func TestClientsAreListed(t *testing.T) {
	r := StartRedis(t)
	require.True(t, poll(20*time.Second, func() bool { return len(r.Clients()) == 0 }))
	c := client(t, r.Addr(), 3)
	require.NoError(t, c.Ping(context.Background()).Err())
	require.Len(t, r.Clients(), 1)
}
