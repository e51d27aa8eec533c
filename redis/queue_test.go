package redis_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/redis"
)

func TestReleaseGrantsToTheNextInOrder(t *testing.T) {
	s := testserver.StartRedis(t)
	holder := open(t, dial(t, s.Addr()))
	lock := acquire(t, holder, "n")
	var waiters []<-chan result
	for range 5 {
		waiters = append(waiters, wants(t, s, open(t, dial(t, s.Addr())), "n"))
	}
	last := lock.Token()
	for _, got := range waiters {
		release(t, lock)
		require.NotNil(t, s.Do("GET", "fencelock/n"), "the release itself has granted it")
		lock = receive(t, got)
		require.Greater(t, lock.Token(), last)
		require.Greater(t, lock.Valid(), time.Second)
		last = lock.Token()
	}
	release(t, lock)
	require.Nil(t, s.Do("GET", "fencelock/n"))
}

// R7
func TestLostMessageCostsOnePoll(t *testing.T) {
	s := testserver.StartRedis(t)
	p := testserver.NewProxy(t, s.Addr())
	holder := open(t, dial(t, s.Addr()))
	deaf := open(t, split{dial(t, s.Addr()), dial(t, p.Addr())})
	lock := acquire(t, holder, "n", fencelock.TTL(20*time.Second))
	got := wants(t, s, deaf, "n", fencelock.TTL(20*time.Second))
	p.Drop(testserver.ToClient)
	release(t, lock)
	require.NotNil(t, s.Do("GET", "fencelock/n"), "granted: the server believes that it was heard")
	start := time.Now()
	next := receive(t, got)
	require.Less(t, time.Since(start), 10*time.Second, "a bounded poll, not a TTL")
	p.Heal()
	release(t, next)
}

// split sends its commands one way and subscribes another way.
type split struct {
	*goredis.Client
	ear *goredis.Client
}

func (s split) Subscribe(ctx context.Context, channels ...string) *goredis.PubSub {
	return s.ear.Subscribe(ctx, channels...)
}

// R7: the lock is released between the refusal and the subscription.
func TestReleaseBeforeTheSubscriptionIsNotMissed(t *testing.T) {
	s := testserver.StartRedis(t)
	p := testserver.NewRedisProxy(t, s.Addr())
	holder, l := open(t, dial(t, s.Addr())), open(t, dial(t, p.Addr()))
	lock := acquire(t, holder, "n")
	trap := p.Hold(testserver.Named("SUBSCRIBE"))
	got := make(chan result, 1)
	go func() {
		lock, err := l.Acquire(context.Background(), "n")
		got <- result{Lock: lock, Err: err}
	}()
	trap.Wait()
	release(t, lock)
	trap.Release()
	release(t, receive(t, got))
}

// R8
func TestDeadWaitersAreSkippedAtOnce(t *testing.T) {
	s := testserver.StartRedis(t)
	holder := open(t, dial(t, s.Addr()))
	lock := acquire(t, holder, "n")
	var dead []*testserver.Worker
	for i := range 3 {
		dead = append(dead, testserver.StartWorker(t, "hold", s.Addr(), "n", "30s"))
		eventually(t, func() bool { return queued(s, "fencelock/n") == i+1 }, "the waiter queues")
	}
	got := wants(t, s, open(t, dial(t, s.Addr())), "n")
	for _, w := range dead {
		w.Kill()
	}
	eventually(t, func() bool { return len(s.Do("PUBSUB", "CHANNELS").([]any)) == 1 }, "the server has noticed")
	start := time.Now()
	release(t, lock)
	next := receive(t, got)
	require.Less(t, time.Since(start), 10*time.Second)
	require.Greater(t, next.Token(), lock.Token())
	release(t, next)
	require.Zero(t, queued(s, "fencelock/n"))
}

// R8
func TestStoppedWaiterCostsItsTTL(t *testing.T) {
	s := testserver.StartRedis(t)
	const ttl = 2 * time.Second
	holder := open(t, dial(t, s.Addr()))
	lock := acquire(t, holder, "n")
	stopped := testserver.StartWorker(t, "hold", s.Addr(), "n", ttl.String())
	eventually(t, func() bool { return queued(s, "fencelock/n") == 1 }, "the waiter queues")
	got := wants(t, s, open(t, dial(t, s.Addr())), "n")
	stopped.Pause()
	start := time.Now()
	release(t, lock)
	next := receive(t, got)
	require.Less(t, time.Since(start), ttl+10*time.Second)
	require.Greater(t, time.Since(start), ttl/2, "the stopped one is still subscribed, so it has had it")

	// It wakes to a grant message of a lock that it has no more.
	stopped.Resume()
	_, err := stopped.TryLine(ttl)
	require.Error(t, err, "two holders")
	require.NoError(t, next.Err())
	release(t, next)
	require.NotEmpty(t, stopped.Line(), "now it has it")
	stopped.Wait()
}

// R8: and a holder that dies while others wait costs no more than its TTL.
func TestDeadHolderIsFollowedInOrder(t *testing.T) {
	s := testserver.StartRedis(t)
	w := testserver.StartWorker(t, "hold", s.Addr(), "n", "2s")
	w.Line()
	first := wants(t, s, open(t, dial(t, s.Addr())), "n")
	second := wants(t, s, open(t, dial(t, s.Addr())), "n")
	w.Kill()
	lock := receive(t, first)
	select {
	case <-second:
		t.Fatal("two holders")
	default:
	}
	release(t, lock)
	release(t, receive(t, second))
}

// R9
func TestScriptsOfAHandOff(t *testing.T) {
	s := testserver.StartRedis(t)
	const processes, rounds = 20, 25
	var all sync.WaitGroup
	begin := s.Calls("EVALSHA", "EVAL")
	for range processes {
		l := open(t, dial(t, s.Addr()), fencelock.Passes(0))
		all.Go(func() {
			for range rounds {
				lock, err := l.Acquire(context.Background(), "n")
				if err == nil {
					err = lock.Release(context.Background())
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	scripts := float64(s.Calls("EVALSHA", "EVAL") - begin)
	t.Logf("%.2f scripts a hand-off", scripts/(processes*rounds))
	require.LessOrEqual(t, scripts/(processes*rounds), 3.0)
}

// A waiter that leaves gives up its place, and the lock if it comes too late.
func TestWaiterThatLeavesHoldsUpNobody(t *testing.T) {
	s := testserver.StartRedis(t)
	holder, leaver := open(t, dial(t, s.Addr())), open(t, dial(t, s.Addr()))
	for i := range 50 {
		name := fmt.Sprint("n", i)
		lock := acquire(t, holder, name)
		ctx, cancel := context.WithCancel(long(t))
		left := make(chan result, 1)
		go func() {
			lock, err := leaver.Acquire(ctx, name)
			left <- result{Lock: lock, Err: err}
		}()
		eventually(t, func() bool { return queued(s, "fencelock/"+name) == 1 }, "the waiter queues")
		go cancel() // at the same time as the grant
		release(t, lock)
		if r := <-left; r.Err == nil {
			release(t, r.Lock)
		} else {
			require.ErrorIs(t, r.Err, context.Canceled)
		}
		start := time.Now()
		release(t, acquire(t, holder, name))
		require.Less(t, time.Since(start), 10*time.Second, "well below the TTL")
	}
	eventually(t, func() bool {
		for i := range 50 {
			if queued(s, fmt.Sprint("fencelock/n", i)) > 0 {
				return false
			}
		}
		return true
	}, "nobody queues")
}

// The connection that waiters share goes when nobody waits, and comes again.
func TestOneSubscriptionWhileSomebodyWaits(t *testing.T) {
	s := testserver.StartRedis(t)
	channels := func() int { return len(s.Do("PUBSUB", "CHANNELS").([]any)) }
	holder, l := open(t, dial(t, s.Addr())), open(t, dial(t, s.Addr()), fencelock.TTL(time.Second))
	for range 2 {
		var locks []fencelock.Lock
		var waiters []<-chan result
		for i := range 10 {
			name := fmt.Sprint(i)
			locks = append(locks, acquire(t, holder, name))
		}
		require.Zero(t, channels())
		for i := range 10 {
			waiters = append(waiters, wants(t, s, l, fmt.Sprint(i)))
		}
		require.Equal(t, 1, channels())
		for i, lock := range locks {
			release(t, lock)
			release(t, receive(t, waiters[i]))
		}
		eventually(t, func() bool { return channels() == 0 }, "the idle Locker unsubscribes")
	}
}

func TestWaitersSurviveAReconnection(t *testing.T) {
	s := testserver.StartRedis(t)
	p := testserver.NewProxy(t, s.Addr())
	holder := open(t, dial(t, s.Addr()))
	l := open(t, split{dial(t, s.Addr()), dial(t, p.Addr())})
	lock := acquire(t, holder, "n")
	got := wants(t, s, l, "n")
	p.Cut()
	release(t, lock) // to nobody: the waiter cannot be told
	p.Heal()
	next := receive(t, got)
	release(t, next)
}

func TestMinTokenOfAQueuedWaiter(t *testing.T) {
	s := testserver.StartRedis(t)
	holder, l := open(t, dial(t, s.Addr())), open(t, dial(t, s.Addr()))
	lock := acquire(t, holder, "n")
	min := lock.Token() + fencelock.Token(time.Hour.Microseconds())
	got := wants(t, s, l, "n", fencelock.MinToken(min))
	release(t, lock)
	next := receive(t, got)
	require.Greater(t, next.Token(), min)
	release(t, next)
}

var _ redis.Client = split{}
