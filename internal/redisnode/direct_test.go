package redisnode

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock/internal/testserver"
)

// warm makes a node ready for direct calls.
func warm(t *testing.T, n *Node) {
	t.Helper()
	eventually(t, func() bool {
		_, err := n.Run(long(t), echo, []string{"k"}, "x")
		require.NoError(t, err)
		return n.laneTo(n.client).calm.Load()
	}, "a quick reply")
}

func TestLateReplyOfADirectCallIsAskedForAgain(t *testing.T) {
	s := testserver.StartRedis(t)
	p := testserver.NewRedisProxy(t, s.Addr())
	n := open(t, dial(t, p.Addr()))
	warm(t, n)
	trap := p.DropReply(testserver.Named("EVALSHA"))
	res, err := n.Run(long(t), echo, []string{"k"}, "y")
	trap.Wait()
	require.NoError(t, err)
	require.Equal(t, []any{"y"}, res.Value)
	require.False(t, res.Once, "it was sent twice")
	require.Greater(t, time.Since(res.Sent), patience/2, "the time of the first sending counts")

	p.Delay(testserver.ToClient, 3*quick, 0)
	for range 3 {
		_, err = n.Run(long(t), echo, []string{"k"}, "x")
		require.NoError(t, err)
	}
	require.False(t, n.laneTo(n.client).calm.Load(), "a slow server gets no direct calls")
	before := p.Conns()
	for range 5 {
		_, err = n.Run(long(t), echo, []string{"k"}, "x")
		require.NoError(t, err)
	}
	require.Equal(t, before, p.Conns(), "and loses no connections to impatience")
}

func TestDirectCallsObeyTheirContext(t *testing.T) {
	s := testserver.StartRedis(t)
	n := open(t, dial(t, s.Addr()))
	warm(t, n)
	s.Pause()
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(5*time.Millisecond, cancel)
	start := time.Now()
	res, err := n.Run(ctx, echo, []string{"k"}, "x")
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, res.Unsent())
	require.Less(t, time.Since(start), time.Second)
	s.Resume()
	require.NoError(t, n.Wait(long(t)))
}

func TestScriptsForOnceAreNotRepeated(t *testing.T) {
	s := testserver.StartRedis(t)
	p := testserver.NewRedisProxy(t, s.Addr())
	n := open(t, dial(t, p.Addr(), func(o *redis.Options) { o.MaxRetries = -1; o.ReadTimeout = 200 * time.Millisecond }))
	warm(t, n)
	incr := NewBareScript(`return {tostring(redis.call('INCR', KEYS[1]))}`).Once()
	_, err := n.Run(long(t), incr, []string{"count"})
	require.NoError(t, err)
	trap := p.DropReply(testserver.Named("EVALSHA"))
	_, err = n.Run(long(t), incr, []string{"count"})
	trap.Wait()
	require.Error(t, err)
	require.Equal(t, "2", s.Do("GET", "count"))
}

func TestDirectErrorsAndUnknownScripts(t *testing.T) {
	s := testserver.StartRedis(t)
	n := open(t, dial(t, s.Addr()))
	warm(t, n)
	s.Do("RPUSH", "list", "x")
	s.Do("SCRIPT", "FLUSH")
	for i := range 3 {
		res, err := n.Run(long(t), fail, []string{"list"})
		require.ErrorContains(t, err, "WRONGTYPE", "run %d", i)
		require.True(t, res.Rejected())
		res, err = n.Run(long(t), echo, []string{"k"}, fmt.Sprint(i))
		require.NoError(t, err)
		require.Equal(t, []any{fmt.Sprint(i)}, res.Value)
	}
}

// An error that only looks like that of an unknown script is the script's own.
func TestScriptThatSaysNoScript(t *testing.T) {
	s := testserver.SharedRedis(t)
	n := open(t, dial(t, s.Addr()))
	says := NewBareScript(`return redis.error_reply('NOSCRIPT mine')`)
	for range 3 {
		_, err := n.Run(long(t), says, []string{"k"})
		require.ErrorContains(t, err, "NOSCRIPT mine")
	}
}
