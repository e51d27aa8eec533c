package redlock

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/redisnode"
	"github.com/fencelock/fencelock/internal/testserver"
)

// node runs the scripts on one server.
type node struct {
	testing.TB
	server *testserver.Redis
	*redisnode.Node
	key string
}

func scriptNode(t *testing.T, server *testserver.Redis) *node {
	n, err := redisnode.New(clients(t, server.Addr())[0])
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, n.Idle(context.Background()))
		require.NoError(t, n.Wait(context.Background()))
	})
	return &node{t, server, n, "fencelock/" + testserver.Prefix(t)}
}

func (n *node) run(c redisnode.Call) redisnode.Result {
	n.Helper()
	res, err := n.Run(within(n, time.Minute), c.Script, c.Keys, c.Args...)
	require.NoError(n, err)
	return res
}

func (n *node) acquire(attempt string, b block) vote {
	p := proposal{b, attempt, time.Minute, ""}
	return p.vote(n.run(p.call(keysOf(n.key))))
}

func (n *node) release(attempt string, last fencelock.Token) standing {
	s, err := standingOf(n.run(grave{key: n.key, attempt: attempt, last: last}.call()))
	require.NoError(n, err)
	return s
}

func (n *node) renew(attempt string, b block) standing {
	s, err := standingOf(n.run(redisnode.Call{
		Script: renewScript, Keys: []string{n.key}, Args: []string{value(attempt, b), "60000"},
	}))
	require.NoError(n, err)
	return s
}

// fakeAttempt differs in its first digits, as random ones do.
func fakeAttempt(i int) string { return fmt.Sprintf("%012x%020x", i, 0) }

// The search is as good as its model of a node: it and the scripts must agree
// on anything.
func TestModelIsTheScripts(t *testing.T) {
	n, m := scriptNode(t, testserver.SharedRedis(t)), &model{}
	keys := keysOf(n.key)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	attempts := []string{fakeAttempt(0)}
	seen := map[string]int{}
	attempt, b := attempts[0], block{1, 1}
	for i := range 5_000 {
		if rnd.IntN(3) > 0 { // else the same again
			if rnd.IntN(2) == 0 {
				attempts = append(attempts, fakeAttempt(i))
			}
			attempt = attempts[max(0, len(attempts)-1-rnd.IntN(1+rnd.IntN(50)))] // more than there are tombstones
			now := fencelock.Token(time.Now().UnixMicro())
			near := []fencelock.Token{m.counter, m.counter, now, now - day, now + day, m.counter + day, 1}[rnd.IntN(7)]
			b.first = max(1, near+fencelock.Token(rnd.IntN(7)-3))
			b.last = max(b.first, b.first+fencelock.Token(rnd.IntN(8)-4))
		}
		var want, got any
		switch rnd.IntN(16) {
		default:
			v := n.acquire(attempt, b)
			require.NoError(t, v.err)
			m.now = v.now
			w := m.acquire(attempt, b)
			require.Equal(t, m.holder != "" && v.verdict == held, v.left > 0)
			v.left = 0
			want, got = w, v
			seen[fmt.Sprint("acquire ", w.verdict)]++
		case 0, 1, 2, 3:
			m.now = fencelock.Token(time.Now().UnixMicro())
			last := b.last
			if d := last - day - m.now; -hour < d && d < hour {
				last = 0 // so near to the limit, the server's own clock decides
			}
			want, got = m.release(attempt, last), n.release(attempt, last)
			seen[fmt.Sprint("release ", want)]++
		case 4:
			if m.holder != "" && rnd.IntN(2) == 0 {
				attempt, b = m.holder, m.block
			}
			want, got = m.renew(attempt, b), n.renew(attempt, b)
			seen[fmt.Sprint("renew ", want)]++
		case 5:
			n.server.Do("DEL", n.key)
			m.expire()
		case 6:
			switch rnd.IntN(20) {
			case 0: // wiped
				n.server.Do("DEL", keys[1])
				m.counter, m.dead = 0, nil
			case 1: // where numbers of floating point end, and all others
				m.counter = []fencelock.Token{1 << 53, math.MaxInt64, math.MaxInt64 - 3}[rnd.IntN(3)]
				n.server.Do("HSET", keys[1], "counter", m.counter.String())
			}
		}
		require.Equal(t, want, got, "step %d: attempt %s, block %d", i, attempt, b)
		if m.counter > 0 && i%8 == 0 {
			require.Equal(t, m.counter.String(), n.server.Do("HGET", keys[1], "counter"), "step %d", i)
		}
	}
	for _, kind := range []string{
		fmt.Sprint("acquire ", accepted), fmt.Sprint("acquire ", held), fmt.Sprint("acquire ", stale), fmt.Sprint("acquire ", ahead),
		fmt.Sprint("acquire ", dead), fmt.Sprint("release ", ours), fmt.Sprint("release ", free), fmt.Sprint("release ", taken),
		fmt.Sprint("renew ", ours), fmt.Sprint("renew ", free), fmt.Sprint("renew ", taken),
	} {
		require.Greater(t, seen[kind], 5, "%s was hardly met: %v", kind, seen)
	}
}

// R20: a duplicate that arrives after the release of its attempt is refused,
// also when the counter is gone.
func TestDeadAttemptCannotComeBack(t *testing.T) {
	n := scriptNode(t, testserver.SharedRedis(t))
	now := fencelock.Token(time.Now().UnixMicro())
	a := strings.Repeat("a", 32)
	require.Equal(t, accepted, n.acquire(a, block{now, now}).verdict)
	require.Equal(t, accepted, n.acquire(a, block{now, now}).verdict, "a replay of a live attempt")
	require.Equal(t, ours, n.release(a, now))
	require.Equal(t, dead, n.acquire(a, block{now, now}).verdict)
	require.Equal(t, dead, n.acquire(a, block{now + 5, now + 5}).verdict)
	require.Equal(t, ours, n.release(a, now), "a repeated release")

	// The clean-up overtakes the attempt.
	b := strings.Repeat("b", 32)
	require.Equal(t, free, n.release(b, 0))
	require.Equal(t, dead, n.acquire(b, block{now + 9, now + 9}).verdict)
}

// A replay must not move the deadline that the client counts from its first
// sending.
func TestReplayDoesNotMoveTheDeadline(t *testing.T) {
	n := scriptNode(t, testserver.SharedRedis(t))
	now := fencelock.Token(time.Now().UnixMicro())
	a := strings.Repeat("a", 32)
	require.Equal(t, accepted, n.acquire(a, block{now, now}).verdict)
	n.server.Do("PEXPIRE", n.key, "30000")
	require.Equal(t, accepted, n.acquire(a, block{now, now}).verdict)
	require.LessOrEqual(t, n.server.Do("PTTL", n.key), int64(30000))
	require.Equal(t, accepted, n.acquire(a, block{now + 1, now + 1}).verdict, "the second round")
	require.Greater(t, n.server.Do("PTTL", n.key), int64(30000))
}

// R3, R21: counters expire, seven days after the greater of time and counter.
func TestCountersExpire(t *testing.T) {
	n := scriptNode(t, testserver.SharedRedis(t))
	now := fencelock.Token(time.Now().UnixMicro())
	companion := keysOf(n.key)[1]
	const week = 7 * 24 * time.Hour
	a := strings.Repeat("a", 32)
	require.Equal(t, accepted, n.acquire(a, block{now, now}).verdict)
	require.InDelta(t, week.Milliseconds(), n.server.Do("PTTL", companion), 60_000)
	require.Equal(t, accepted, n.acquire(a, block{now + 20*hour, now + 20*hour}).verdict)
	require.InDelta(t, (week + 20*time.Hour).Milliseconds(), n.server.Do("PTTL", companion), 60_000)
	require.Equal(t, ours, n.release(a, now))
	require.InDelta(t, (week + 20*time.Hour).Milliseconds(), n.server.Do("PTTL", companion), 60_000)
}

// R4: an error in mid-script must not leave a lock behind.
func TestWrongTypesLeaveNoLock(t *testing.T) {
	n := scriptNode(t, testserver.SharedRedis(t))
	now := fencelock.Token(time.Now().UnixMicro())
	p := proposal{block{now, now}, strings.Repeat("a", 32), time.Minute, ""}
	keys := keysOf(n.key)
	for _, key := range keys {
		n.server.Do("SADD", key, "member")
		_, err := n.Run(context.Background(), acquireScript, keys, p.call(keys).Args...)
		require.ErrorContains(t, err, "WRONGTYPE")
		n.server.Do("DEL", key)
		require.EqualValues(t, 0, n.server.Do("EXISTS", n.key))
	}
}

// R24: the key of another client is respected and left alone.
func TestForeignKeyIsLeftAlone(t *testing.T) {
	n := scriptNode(t, testserver.SharedRedis(t))
	now := fencelock.Token(time.Now().UnixMicro())
	a := strings.Repeat("a", 32)
	for i, foreign := range []string{"", "x", a, a + "b", strings.Repeat("b", 32) + ":1:1"} {
		n.server.Do("SET", n.key, foreign, "PX", "60000")
		require.Equal(t, held, n.acquire(a, block{now, now}).verdict, foreign)
		require.Equal(t, taken, n.renew(a, block{now, now}), foreign)
		require.Equal(t, taken, n.release(fakeAttempt(i), now), foreign)
		require.Equal(t, foreign, n.server.Do("GET", n.key))
	}
}
