package zk_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testlock"
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

// These fail the test if they cannot; see testlock.
var (
	long       = testlock.Long
	acquire    = testlock.Acquire
	release    = testlock.Release
	receive    = testlock.Receive
	eventually = testlock.Eventually
)

// open returns a Locker that is closed with the test.
func open(t testing.TB, addrs []string, opts ...fencelock.Option) *zk.Locker {
	t.Helper()
	l, err := zk.New(addrs, opts...)
	return testlock.Open(t, l, err)
}

func lost(t testing.TB, lock fencelock.Lock) *fencelock.LostError {
	t.Helper()
	return testlock.Lost(t, lock, 20*time.Second)
}

// wants starts an Acquire in the background and returns when it is in the queue
// behind others that are there.
func wants(t testing.TB, c *gozk.Conn, l fencelock.Locker, name string, opts ...fencelock.Option) <-chan testlock.Result {
	t.Helper()
	return testlock.Want(t, func() int { return len(queue(t, c, name)) }, l, name, opts...)
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
