package redlock

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
)

// slowly makes polls so rare that only a wake-up explains a quick hand-over.
var slowly = []fencelock.Option{fencelock.Backoff(30*time.Second, 30*time.Second), fencelock.TTL(time.Minute)}

// waiting starts an Acquire that ends up in got, and returns when it is queued.
func waiting(t *testing.T, e ensemble, l *Locker, name string, queue int) (got chan fencelock.Lock) {
	t.Helper()
	e.eventuallyHeld(t, name) // where the holder comes late, nobody queues
	got = make(chan fencelock.Lock, 1)
	go func() {
		lock, err := l.Acquire(context.Background(), name)
		if err != nil {
			t.Error(err)
		}
		got <- lock
	}()
	eventually(t, generous, "queued at all nodes", func() bool {
		for _, s := range e {
			q, _ := s.Do("HGET", keysOf("fencelock/" + name)[1], "queue").(string)
			if len(q) < 17*queue {
				return false
			}
		}
		return true
	})
	return got
}

func receive(t *testing.T, got chan fencelock.Lock) fencelock.Lock {
	t.Helper()
	select {
	case lock := <-got:
		require.NotNil(t, lock)
		return lock
	case <-time.After(generous):
		t.Fatal("the waiter was not woken")
		return nil
	}
}

// Processes are served in the order in which they came, each woken by the
// release before it.
func TestWaitersAreWokenInOrder(t *testing.T) {
	e := start(t, 5)
	lock := acquire(t, dial(t, e.addrs(), slowly...), "x")
	var queue []chan fencelock.Lock
	for i := range 4 {
		queue = append(queue, waiting(t, e, dial(t, e.addrs(), slowly...), "x", i+1))
	}
	for i, got := range queue {
		evals := e.evals()
		release(t, lock)
		next := receive(t, got)
		require.Greater(t, next.Token(), lock.Token())
		lock = next
		if i > 0 {
			// R9: a release, an attempt, perhaps in two rounds, and a farewell to the nodes that did
			// not accept it; nothing by those whose turn it is not.
			require.Less(t, e.evals()-evals, 4*len(e))
		}
	}
	release(t, lock)
}

// R8: a waiter that died does not keep the next one waiting.
func TestDeadWaiterIsPassedOver(t *testing.T) {
	e := start(t, 3)
	lock := acquire(t, dial(t, e.addrs(), slowly...), "x")
	var addrs []string
	var proxies links
	for _, s := range e {
		p := testserver.NewProxy(t, s.Addr())
		proxies, addrs = append(proxies, p), append(addrs, p.Addr())
	}
	ctx, cancel := context.WithCancel(context.Background())
	dying := dial(t, addrs, slowly...)
	var dead sync.WaitGroup
	dead.Go(func() { _, _ = dying.Acquire(ctx, "x") })
	eventually(t, generous, "queued", func() bool {
		for _, s := range e {
			if q, _ := s.Do("HGET", keysOf("fencelock/x")[1], "queue").(string); q == "" {
				return false
			}
		}
		return true
	})
	got := waiting(t, e, dial(t, e.addrs(), slowly...), "x", 2)
	proxies.Cut()
	for _, s := range e {
		eventually(t, generous, "its connection is gone", func() bool {
			return len(s.Do("PUBSUB", "CHANNELS").([]any)) == 1
		})
	}
	release(t, lock)
	release(t, receive(t, got))
	cancel()
	dead.Wait()
	proxies.Heal()
}

// R8: one that is stopped but still subscribed costs its turn, no more.
func TestStoppedWaiterLosesItsTurn(t *testing.T) {
	e := start(t, 3)
	lock := acquire(t, dial(t, e.addrs()), "x")
	var addrs []string
	var proxies links
	for _, s := range e {
		p := testserver.NewProxy(t, s.Addr())
		proxies, addrs = append(proxies, p), append(addrs, p.Addr())
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := dial(t, addrs, fencelock.TTL(3*time.Second))
	var dead sync.WaitGroup
	dead.Go(func() { _, _ = stopped.Acquire(ctx, "x") })
	eventually(t, generous, "queued", func() bool {
		for _, s := range e {
			if q, _ := s.Do("HGET", keysOf("fencelock/x")[1], "queue").(string); q == "" {
				return false
			}
		}
		return true
	})
	got := waiting(t, e, dial(t, e.addrs()), "x", 2)
	proxies.Freeze()
	release(t, lock)
	release(t, receive(t, got))
	cancel()
	dead.Wait()
	proxies.Heal()
}

// R7: wake-ups that get lost cost at most one bounded poll.
func TestLostWakeUpCostsOnePoll(t *testing.T) {
	e := start(t, 3)
	for _, s := range e {
		s.Do("ACL", "SETUSER", "default", "-publish")
	}
	holder, other := dial(t, e.addrs()), dial(t, e.addrs())
	lock := acquire(t, holder, "x")
	got := waiting(t, e, other, "x", 1)
	release(t, lock)
	release(t, receive(t, got))
}

// Servers that do not allow to subscribe are polled.
func TestWithoutSubscriptions(t *testing.T) {
	e := start(t, 3)
	for _, s := range e {
		s.Do("ACL", "SETUSER", "default", "-subscribe")
	}
	l, other := dial(t, e.addrs()), dial(t, e.addrs())
	lock := acquire(t, l, "x")
	got := make(chan fencelock.Lock, 1)
	go func() {
		lock, err := other.Acquire(context.Background(), "x")
		if err != nil {
			t.Error(err)
		}
		got <- lock
	}()
	before := e.evals()
	eventually(t, generous, "it polls", func() bool { return e.evals() > before+3*len(e) })
	release(t, lock)
	release(t, receive(t, got))
}

// Nobody subscribes unless somebody waits.
func TestSubscribesOnlyWhileSomebodyWaits(t *testing.T) {
	e := start(t, 3)
	channels := func() (n int) {
		for _, s := range e {
			n += len(s.Do("PUBSUB", "CHANNELS").([]any))
		}
		return n
	}
	l, other := dial(t, e.addrs(), slowly...), dial(t, e.addrs(), slowly...)
	lock := acquire(t, l, "x")
	require.Zero(t, channels())
	got := waiting(t, e, other, "x", 1)
	require.Equal(t, len(e), channels())
	release(t, lock)
	lock = receive(t, got)
	eventually(t, generous, "unsubscribed, though the lock is still held", func() bool { return channels() == 0 })
	release(t, lock)
	eventually(t, generous, "nothing is left", func() bool { return len(e.residue()) == 0 })
}

// A turn that is not taken goes to the next at once, not when it runs out.
func TestTurnIsGivenBack(t *testing.T) {
	n := scriptNode(t, testserver.SharedRedis(t))
	keys := keysOf(n.key)
	now := fencelock.Token(time.Now().UnixMicro())
	heard := make(chan string, 10)
	for _, who := range []string{"a", "b"} {
		stop, err := n.Subscribe(within(t, generous), "fencelock:turn:"+who, func(message string, gap bool) {
			if strings.HasSuffix(message, " "+n.key) {
				heard <- who
			}
		})
		require.NoError(t, err)
		defer stop()
	}
	ask := func(id int, waiter string) verdict {
		now += 10
		p := proposal{block{now, now}, fakeAttempt(id), time.Minute, waiter}
		return p.vote(n.run(p.call(keys))).verdict
	}
	require.Equal(t, accepted, ask(1, ""))
	require.Equal(t, held, ask(2, "gone"))
	require.Equal(t, held, ask(3, "a"))
	require.Equal(t, held, ask(4, "b"))
	require.Equal(t, held, ask(5, "a"), "a is queued once")
	n.server.Do("HSET", keys[1], "turn", "") // no turn from before
	release := grave{key: n.key, attempt: fakeAttempt(1), last: now}.call()
	release.Args[3] = "1000" // a long turn
	n.run(release)
	require.Equal(t, "a", <-heard, "gone is not there")
	require.Equal(t, held, ask(6, ""), "it is a's turn")
	require.Equal(t, held, ask(7, "b"), "it is a's turn")
	leave := callLeave(keys, "a")
	n.run(leave)
	require.Equal(t, "b", <-heard)
	require.Equal(t, held, ask(8, ""), "it is b's turn")
	require.Equal(t, accepted, ask(9, "b"))
	require.True(t, slices.Contains([]any{"", nil}, n.server.Do("HGET", keys[1], "queue")))
}
