package redisnode

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock/internal/testserver"
)

// ear collects what it hears.
type ear struct {
	mu   sync.Mutex
	said []string
}

func (e *ear) hear(payload string, gap bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if gap {
		payload = "gap"
	}
	e.said = append(e.said, payload)
}

func (e *ear) has(want ...string) func() bool {
	return func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return fmt.Sprint(e.said) == fmt.Sprint(want)
	}
}

func eventually(t *testing.T, f func() bool, what string) {
	t.Helper()
	require.Eventually(t, f, 20*time.Second, 5*time.Millisecond, what)
}

func TestSubscribeIsConfirmedAndOnOneConnection(t *testing.T) {
	s := testserver.StartRedis(t)
	n := open(t, dial(t, s.Addr()))
	var a, b, also ear
	stopA, err := n.Subscribe(long(t), "a", a.hear)
	require.NoError(t, err)
	require.EqualValues(t, 1, s.Do("PUBLISH", "a", "one"), "it is confirmed: the server knows it")
	stopB, err := n.Subscribe(long(t), "b", b.hear)
	require.NoError(t, err)
	stopAlso, err := n.Subscribe(long(t), "a", also.hear)
	require.NoError(t, err)
	require.EqualValues(t, 1, s.Do("PUBLISH", "a", "two"), "one connection")
	require.EqualValues(t, 1, s.Do("PUBLISH", "b", "three"))
	eventually(t, a.has("one", "two"), "all of a")
	eventually(t, also.has("two"), "since its subscription")
	eventually(t, b.has("three"), "only b")

	stopA()
	stopA()
	require.EqualValues(t, 1, s.Do("PUBLISH", "a", "four"))
	eventually(t, also.has("two", "four"), "the other goes on")
	stopAlso()
	eventually(t, func() bool { return s.Do("PUBLISH", "a", "five") == int64(0) }, "unsubscribed")
	require.True(t, a.has("one", "two")())

	require.NoError(t, n.Idle(long(t)), "b is still wanted")
	require.EqualValues(t, 1, s.Do("PUBLISH", "b", "six"))
	stopB()
	require.NoError(t, n.Idle(long(t)))
	eventually(t, func() bool { return len(s.Clients()) == 0 }, "the connection is closed")

	stopA, err = n.Subscribe(long(t), "a", a.hear)
	require.NoError(t, err, "works again")
	require.EqualValues(t, 1, s.Do("PUBLISH", "a", "seven"))
	stopA()
	require.NoError(t, n.Idle(long(t)))
	require.NoError(t, n.Wait(long(t)))
}

func TestSubscriptionsSurviveTheirConnection(t *testing.T) {
	s := testserver.StartRedis(t)
	p := testserver.NewProxy(t, s.Addr())
	n := open(t, dial(t, p.Addr()))
	var e ear
	stop, err := n.Subscribe(long(t), "c", e.hear)
	require.NoError(t, err)
	p.Cut()
	p.Heal()
	eventually(t, e.has("gap"), "told that messages may have been missed")
	require.EqualValues(t, 1, s.Do("PUBLISH", "c", "x"))
	eventually(t, e.has("gap", "x"), "and heard again")

	s.Restart()
	eventually(t, e.has("gap", "x", "gap"), "after a restart too")
	stop()
	require.NoError(t, n.Idle(long(t)))
}

func TestSilentConnectionIsReplaced(t *testing.T) {
	s := testserver.StartRedis(t)
	p := testserver.NewProxy(t, s.Addr())
	n := open(t, dial(t, p.Addr()))
	var e ear
	stop, err := n.Subscribe(long(t), "c", e.hear)
	require.NoError(t, err)
	p.Drop(testserver.Both)
	require.Eventually(t, func() bool { return p.Conns() > 1 }, 10*pingEvery, 50*time.Millisecond, "it dials again")
	p.Heal()
	eventually(t, e.has("gap"), "connected again")
	stop()
	require.NoError(t, n.Idle(long(t)))
}

func TestSubscribeTellsWhyNot(t *testing.T) {
	s := testserver.StartRedis(t)
	p := testserver.NewProxy(t, s.Addr())
	n := open(t, dial(t, p.Addr()))
	var e ear

	p.Cut()
	_, err := n.Subscribe(long(t), "c", e.hear)
	require.ErrorContains(t, err, "refused")
	p.Heal()

	s.Do("ACL", "SETUSER", "default", "resetchannels", "&good*")
	_, err = n.Subscribe(long(t), "bad", e.hear)
	require.ErrorContains(t, err, "NOPERM")
	stop, err := n.Subscribe(long(t), "good", e.hear)
	require.NoError(t, err)
	stop()

	p.Drop(testserver.Both)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err = n.Subscribe(ctx, "good too", e.hear)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(start), time.Second)
	p.Heal()
	require.NoError(t, n.Idle(long(t)))
}

// Subscribing and unsubscribing in quick succession ends in what was asked last.
func TestSubscribeAfterUnsubscribe(t *testing.T) {
	s := testserver.StartRedis(t)
	n := open(t, dial(t, s.Addr()))
	for i := range 200 {
		var e ear
		stop, err := n.Subscribe(long(t), "c", e.hear)
		require.NoError(t, err)
		require.EqualValues(t, 1, s.Do("PUBLISH", "c", fmt.Sprint(i)), "round %d", i)
		eventually(t, e.has(fmt.Sprint(i)), "the message")
		stop()
	}
	require.NoError(t, n.Idle(long(t)))
}
