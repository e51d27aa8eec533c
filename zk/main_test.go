package zk_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/locktest"
	"github.com/fencelock/fencelock/zk"
)

// addrEnv tells a worker process where the servers are.
const addrEnv = "FENCELOCK_ZK_TEST_ADDR"

func TestMain(m *testing.M) {
	locktest.Work(func(opts ...fencelock.Option) (locktest.Locker, error) {
		return zk.New(strings.Split(os.Getenv(addrEnv), ","), opts...)
	})
	registerWorkers()
	testserver.Main(m)
}

// open returns a Locker that is closed with the test.
func open(t testing.TB, addrs []string, opts ...fencelock.Option) *zk.Locker {
	t.Helper()
	l, err := zk.New(addrs, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := l.Close(long(t)); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

// long is a ctx that outlasts whatever a slow machine makes of the test.
func long(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func acquire(t testing.TB, l fencelock.Locker, name string, opts ...fencelock.Option) fencelock.Lock {
	t.Helper()
	lock, err := l.Acquire(long(t), name, opts...)
	require.NoError(t, err)
	return lock
}

func release(t testing.TB, lock fencelock.Lock) {
	t.Helper()
	require.NoError(t, lock.Release(long(t)))
}

type result struct {
	lock fencelock.Lock
	err  error
}

// wants starts an Acquire in the background and returns when it is in the queue
// behind others that are there.
func wants(t testing.TB, c *gozk.Conn, l fencelock.Locker, name string, opts ...fencelock.Option) <-chan result {
	t.Helper()
	before := len(queue(t, c, name))
	got := make(chan result, 1)
	ctx := long(t)
	go func() {
		lock, err := l.Acquire(ctx, name, opts...)
		got <- result{lock, err}
	}()
	eventually(t, func() bool { return len(queue(t, c, name)) == before+1 }, "the waiter queues")
	return got
}

func receive(t testing.TB, got <-chan result) fencelock.Lock {
	t.Helper()
	select {
	case r := <-got:
		require.NoError(t, r.err)
		return r.lock
	case <-time.After(30 * time.Second):
		t.Fatal("no lock")
		return nil
	}
}

func eventually(t testing.TB, f func() bool, what string) {
	t.Helper()
	require.Eventually(t, f, 20*time.Second, 5*time.Millisecond, what)
}

func lost(t testing.TB, lock fencelock.Lock) *fencelock.LostError {
	t.Helper()
	select {
	case <-lock.Lost():
	case <-time.After(20 * time.Second):
		t.Fatal("the holder is not told")
	}
	var why *fencelock.LostError
	require.ErrorAs(t, lock.Err(), &why)
	return why
}

// client is a plain client, to look at the servers behind the tested one's back.
func client(t testing.TB, addrs ...string) *gozk.Conn {
	t.Helper()
	c, events, err := gozk.Connect(addrs, 20*time.Second, gozk.WithLogger(silent{}))
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Close()
		for range events {
		}
	})
	return c
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func parent(name string) string { return zk.Parent("fencelock/", name) }

// queue lists the children of a name's node, sorted.
func queue(t testing.TB, c *gozk.Conn, name string) []string {
	t.Helper()
	children, _, err := c.Children(parent(name))
	if err == gozk.ErrNoNode {
		return nil
	}
	require.NoError(t, err)
	slices.SortFunc(children, func(a, b string) int {
		return strings.Compare(a[max(0, len(a)-10):], b[max(0, len(b)-10):])
	})
	return children
}

// empty waits until nothing of ours is left in the queue of a name.
func empty(t testing.TB, c *gozk.Conn, name string) {
	t.Helper()
	eventually(t, func() bool { _, n := zk.Front(queue(t, c, name)); return n == 0 }, "no node of ours is left")
}
