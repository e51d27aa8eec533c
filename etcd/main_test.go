package etcd_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/etcd"
	"github.com/fencelock/fencelock/internal/testlock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/locktest"
)

// addrEnv tells a worker process where the servers are.
const addrEnv = "FENCELOCK_ETCD_TEST_ADDR"

func TestMain(m *testing.M) {
	locktest.Work(func(opts ...fencelock.Option) (locktest.Locker, error) {
		c, err := dial(strings.Split(os.Getenv(addrEnv), ","))
		if err != nil {
			return nil, err
		}
		return etcd.New(c, opts...)
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

func dial(addrs []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: addrs, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 2 * time.Second, Logger: zap.NewNop(),
	})
}

// client is closed with the test.
func client(t testing.TB, addrs ...string) *clientv3.Client {
	t.Helper()
	c, err := dial(addrs)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// open returns a Locker, with a client of its own, that is closed with the test.
func open(t testing.TB, addrs []string, opts ...fencelock.Option) *etcd.Locker {
	t.Helper()
	l, err := etcd.New(client(t, addrs...), opts...)
	return testlock.Open(t, l, err)
}

func one(e *testserver.Etcd) []string { return []string{e.Addr()} }

func lost(t testing.TB, lock fencelock.Lock) *fencelock.LostError {
	t.Helper()
	return testlock.Lost(t, lock, 20*time.Second)
}

// wants starts an Acquire in the background and returns when it is in the queue
// behind others that are there.
func wants(t testing.TB, c *clientv3.Client, l fencelock.Locker, name string, opts ...fencelock.Option) <-chan testlock.Result {
	t.Helper()
	return testlock.Want(t, func() int { return len(queue(t, c, name)) }, l, name, opts...)
}

// queue returns the keys of a name, the holder's first.
func queue(t testing.TB, c *clientv3.Client, name string) []*mvccpb.KeyValue {
	t.Helper()
	return keys(t, c, etcd.Space("fencelock/"+name))
}

func keys(t testing.TB, c *clientv3.Client, prefix string) []*mvccpb.KeyValue {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	resp, err := c.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	require.NoError(t, err)
	return resp.Kvs
}

// residue lists what a server keeps for Lockers: keys and leases.
func residue(t testing.TB, c *clientv3.Client) (left []string) {
	t.Helper()
	for _, kv := range keys(t, c, "fencelock/") {
		if !strings.Contains(string(kv.Key), "%") { // records of fences and tokens stay
			left = append(left, string(kv.Key))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	resp, err := c.Leases(ctx)
	require.NoError(t, err)
	for _, l := range resp.Leases {
		left = append(left, "lease "+etcd.Hex(int64(l.ID)))
	}
	slices.Sort(left)
	return left
}

// empty waits until nothing of ours is left in the queue of a name.
func empty(t testing.TB, c *clientv3.Client, name string) {
	t.Helper()
	eventually(t, func() bool { return len(queue(t, c, name)) == 0 }, "no key of ours is left")
}
