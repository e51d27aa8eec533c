package redlock

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/locktest"
)

// nodesVar tells a worker process the addresses of the nodes.
const nodesVar = "FENCELOCK_TEST_REDLOCK_NODES"

func TestMain(m *testing.M) {
	locktest.Work(func(opts ...fencelock.Option) (locktest.Locker, error) {
		var clients []redis.UniversalClient
		for addr := range strings.SplitSeq(os.Getenv(nodesVar), ",") {
			clients = append(clients, redis.NewClient(&redis.Options{Addr: addr}))
		}
		return New(clients, opts...)
	})
	testserver.Main(m)
}

// ensemble is a set of independent servers.
type ensemble []*testserver.Redis

func start(tb testing.TB, n int, args ...string) ensemble {
	tb.Helper()
	e := make(ensemble, n)
	for i := range e {
		e[i] = testserver.StartRedis(tb, args...)
	}
	return e
}

func (e ensemble) addrs() (addrs []string) {
	for _, s := range e {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// clients returns one client per address, closed when the test ends.
func clients(tb testing.TB, addrs ...string) (all []redis.UniversalClient) {
	for _, addr := range addrs {
		c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 64})
		tb.Cleanup(func() { c.Close() })
		all = append(all, c)
	}
	return all
}

// dial returns a Locker, closed when the test ends.
func dial(tb testing.TB, addrs []string, opts ...fencelock.Option) *Locker {
	tb.Helper()
	l, err := New(clients(tb, addrs...), opts...)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return l
}

// residue lists what the nodes keep beyond counters and tombstones.
func (e ensemble) residue() (left []string) {
	for i, s := range e {
		for _, key := range s.Do("KEYS", "*").([]any) {
			key := key.(string)
			if s.Do("TYPE", key) == "string" {
				left = append(left, fmt.Sprintf("node %d: lock %.80q", i, key))
				continue
			}
			if q, _ := s.Do("HGET", key, "queue").(string); q != "" {
				left = append(left, fmt.Sprintf("node %d: waiters %q of %.80q", i, q, key))
			}
		}
		for _, channel := range s.Do("PUBSUB", "CHANNELS").([]any) {
			left = append(left, fmt.Sprintf("node %d: channel %s", i, channel))
		}
	}
	return left
}

// eventually polls for a state.
func eventually(tb testing.TB, within time.Duration, what string, is func() bool) {
	tb.Helper()
	for end := time.Now().Add(within); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("not within %v: %s", within, what)
		}
	}
}

// eventuallyHeld waits until all nodes have accepted name's holder, not just a
// majority.
func (e ensemble) eventuallyHeld(tb testing.TB, name string) {
	tb.Helper()
	eventually(tb, generous, "held at all nodes", func() bool {
		for _, s := range e {
			if s.Do("EXISTS", "fencelock/"+name) == int64(0) {
				return false
			}
		}
		return true
	})
}

func within(tb testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	tb.Cleanup(cancel)
	return ctx
}

// generous is ten times what a call may take on a quiet machine.
const generous = 10 * time.Second

func acquire(tb testing.TB, l *Locker, name string, opts ...fencelock.Option) fencelock.Lock {
	tb.Helper()
	lock, err := l.Acquire(within(tb, generous), name, opts...)
	require.NoError(tb, err)
	return lock
}

func release(tb testing.TB, lock fencelock.Lock) {
	tb.Helper()
	require.NoError(tb, lock.Release(within(tb, generous)))
}
