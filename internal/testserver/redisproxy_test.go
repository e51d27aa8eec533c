package testserver

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// client connects a real client, that tries once and has one connection, in the given version of the protocol. It waits
// long, unless it is given soon as context.
func client(t *testing.T, addr string, protocol int) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, Protocol: protocol, MaxRetries: -1, PoolSize: 1,
		ReadTimeout: 30 * time.Second, DialTimeout: 30 * time.Second, ContextTimeoutEnabled: true})
	t.Cleanup(func() { c.Close() })
	return c
}

// soon is the context of a command whose reply will not come.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	t.Cleanup(cancel)
	return ctx
}

func key(k string) Match {
	return func(request []string) bool { return len(request) > 1 && request[1] == k }
}

func TestDropAndCutLoseExactlyOneReply(t *testing.T) {
	srv := SharedRedis(t)
	for _, protocol := range []int{2, 3} {
		for name, start := range map[string]func(*RedisProxy, Match) *Trap{"drop": (*RedisProxy).DropReply, "cut": (*RedisProxy).CutReply} {
			t.Run(name, func(t *testing.T) {
				ctx, p, k := context.Background(), NewRedisProxy(t, srv.Addr()), Prefix(t)
				c := client(t, p.Addr(), protocol)
				require.NoError(t, c.Set(ctx, k, "0", time.Minute).Err())
				trap := start(p, key(k))
				require.NoError(t, c.Set(ctx, k+"other", "1", time.Minute).Err(), "does not match")
				err := c.Set(soon(t), k, "1", time.Minute).Err()
				require.Error(t, err)
				require.Equal(t, name == "drop", strings.Contains(err.Error(), "timeout"), "%v", err)
				require.Equal(t, "+OK\r\n", trap.Wait())
				require.Equal(t, "1", srv.Do("GET", k), "the server has done it")
				require.NoError(t, c.Set(ctx, k, "2", time.Minute).Err(), "only the first")
			})
		}
	}
}

func TestDropReplyInAPipelineKeepsTheRepliesBefore(t *testing.T) {
	ctx, p, k := context.Background(), NewRedisProxy(t, SharedRedis(t).Addr()), Prefix(t)
	c := client(t, p.Addr(), 3)
	require.NoError(t, c.Ping(ctx).Err())
	trap := p.DropReply(key(k + "b"))
	var before, lost, after *redis.StatusCmd
	_, err := c.Pipelined(soon(t), func(pipe redis.Pipeliner) error {
		before = pipe.Set(ctx, k+"a", "1", time.Minute)
		lost = pipe.Set(ctx, k+"b", "2", time.Minute)
		after = pipe.Set(ctx, k+"c", "3", time.Minute)
		return nil
	})
	require.Error(t, err)
	trap.Wait()
	require.NoError(t, before.Err())
	require.Error(t, lost.Err())
	require.Error(t, after.Err(), "no reply may take the place of the lost one")
}

func TestHeldRequestArrivesAfterItsClientLeft(t *testing.T) {
	srv := SharedRedis(t)
	ctx, p, k := context.Background(), NewRedisProxy(t, srv.Addr()), Prefix(t)
	c := client(t, p.Addr(), 3)
	require.NoError(t, c.Ping(ctx).Err())
	trap := p.Hold(Named("set"))
	require.ErrorContains(t, c.Set(soon(t), k, "late", time.Minute).Err(), "timeout")
	trap.Wait()
	require.NoError(t, c.Close())
	require.NoError(t, client(t, p.Addr(), 3).Set(ctx, k+"2", "v", time.Minute).Err(), "others pass")
	require.Nil(t, srv.Do("GET", k))
	trap.Release()
	require.True(t, poll(20*time.Second, func() bool { return srv.Do("GET", k) == "late" }))
}

func TestHeldRequestEndsWithTheProxy(t *testing.T) {
	p := NewRedisProxy(t, SharedRedis(t).Addr())
	trap := p.Hold(Named("PING"))
	require.Error(t, client(t, p.Addr(), 3).Ping(soon(t)).Err())
	trap.Wait()
	p.Close()
}

func TestRecordCountsAndReplays(t *testing.T) {
	srv := SharedRedis(t)
	ctx, p, k := context.Background(), NewRedisProxy(t, srv.Addr()), Prefix(t)
	c := client(t, p.Addr(), 3)
	rec := p.Record(Named("INCR"))
	for range 3 {
		require.NoError(t, c.Incr(ctx, k).Err())
	}
	require.NoError(t, c.Get(ctx, k).Err())
	rec.Wait(3)
	require.Equal(t, 3, rec.Len())
	require.Equal(t, []string{"incr", k}, rec.Requests()[2])
	v, err := rec.Replay(0)
	require.NoError(t, err)
	require.Equal(t, int64(4), v)
	require.Equal(t, 3, rec.Len(), "a replay does not pass the proxy")
	srv.Do("DEL", k)
}

func TestSwallowedRequestsAreNotRecorded(t *testing.T) {
	p := NewRedisProxy(t, SharedRedis(t).Addr())
	c := client(t, p.Addr(), 3)
	require.NoError(t, c.Ping(context.Background()).Err())
	rec := p.Record(Named("PING"))
	p.Drop(ToServer)
	require.Error(t, c.Ping(soon(t)).Err())
	require.Zero(t, rec.Len())
}

func TestRedisProxyLetsPubSubPass(t *testing.T) {
	srv := SharedRedis(t)
	for _, protocol := range []int{2, 3} {
		ctx, p, topic := context.Background(), NewRedisProxy(t, srv.Addr()), Prefix(t)
		sub := client(t, p.Addr(), protocol).Subscribe(ctx, topic)
		_, err := sub.Receive(ctx)
		require.NoError(t, err)
		for range 100 {
			require.Equal(t, int64(1), srv.Do("PUBLISH", topic, "hello"))
			m, err := sub.ReceiveMessage(ctx)
			require.NoError(t, err)
			require.Equal(t, "hello", m.Payload)
		}
		require.NoError(t, sub.Ping(ctx))
		require.NoError(t, sub.Close())
	}
}

func TestPushMessagesAreNotTakenForReplies(t *testing.T) {
	p, topic := NewRedisProxy(t, SharedRedis(t).Addr()), Prefix(t)
	c, err := dialRESP(p.Addr())
	require.NoError(t, err)
	defer c.Close()
	for _, words := range [][]string{{"HELLO", "3"}, {"SUBSCRIBE", topic}} {
		_, err = c.Write(encode(words))
		require.NoError(t, err)
		_, err = readRESP(c.in)
		require.NoError(t, err)
	}
	trap := p.DropReply(Named("PUBLISH"))
	_, err = c.Write(encode([]string{"PUBLISH", topic, "to myself"}))
	require.NoError(t, err)
	require.Equal(t, ":1\r\n", trap.Wait())
}

func TestRedisProxyPassesEveryType(t *testing.T) {
	p := NewRedisProxy(t, StartRedis(t, "--enable-debug-command", "yes").Addr())
	for _, protocol := range []int{2, 3} {
		ctx, c := context.Background(), client(t, p.Addr(), protocol)
		for _, kind := range []string{"string", "integer", "double", "null", "array", "set", "map", "attrib", "push", "bignum", "true", "false", "verbatim"} {
			if kind == "push" || kind == "attrib" {
				continue // go-redis itself cannot read them here
			}
			if err := c.Do(ctx, "DEBUG", "PROTOCOL", kind).Err(); err != nil {
				require.ErrorIs(t, err, redis.Nil, "%s", kind)
			}
		}
		require.Equal(t, "PONG", c.Ping(ctx).Val())
	}
}
