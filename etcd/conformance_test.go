package etcd_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/etcd"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/locktest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	conform(t, testserver.StartEtcd(t))
}

func conform(t *testing.T, members ...*testserver.Etcd) {
	var addrs []string
	for _, e := range members {
		addrs = append(addrs, e.Addr())
	}
	c := client(t, addrs...)
	broken := forbidden(t)
	open := func(t testing.TB, addrs []string, opts []fencelock.Option) locktest.Locker {
		l, err := etcd.New(client(t, addrs...), opts...)
		require.NoError(t, err)
		return l
	}
	locktest.Run(t, locktest.Backend{
		New: func(t testing.TB, opts ...fencelock.Option) locktest.Locker {
			l, err := etcd.New(connected(t, addrs), opts...)
			require.NoError(t, err)
			return l
		},
		Via: func(t testing.TB, opts ...fencelock.Option) (locktest.Locker, locktest.Link) {
			var via links
			for _, addr := range addrs {
				via = append(via, testserver.Link{Proxy: testserver.NewProxy(t, addr)})
			}
			return open(t, via.addrs(), opts), via
		},
		Refused: func(t testing.TB, opts ...fencelock.Option) locktest.Locker {
			p := testserver.NewProxy(t, addrs[0])
			p.Cut()
			return open(t, []string{p.Addr()}, opts)
		},
		Broken: func(t testing.TB, opts ...fencelock.Option) locktest.Locker {
			l, err := etcd.New(broken, opts...)
			require.NoError(t, err)
			return l
		},
		Delete: func(t testing.TB, name string) {
			_, err := c.Delete(long(t), etcd.Space("fencelock/"+name), clientv3.WithPrefix())
			require.NoError(t, err)
		},
		Residue:  func(t testing.TB) []string { return residue(t, c) },
		Commands: func(t testing.TB) int { return requests(members) },
		TTL:      2 * time.Second, // less is not granted
		Worker:   func(testing.TB) *exec.Cmd { return locktest.Self(addrEnv + "=" + strings.Join(addrs, ",")) },
	})
}

// connected returns a client that is connected to all members, so that what it
// keeps for that is not taken for a Locker's.
func connected(t testing.TB, addrs []string) *clientv3.Client {
	c, heard := client(t, addrs...), make(map[uint64]bool)
	for ctx := long(t); len(heard) < len(addrs); {
		resp, err := c.Get(ctx, "x")
		require.NoError(t, err)
		heard[resp.Header.MemberId] = true
	}
	return c
}

// requests counts what acquires, renews and releases. (An idle Locker's lease is
// revoked, once.)
func requests(members []*testserver.Etcd) (n int) {
	for _, e := range members {
		n += e.Metric("grpc_server_msg_received_total", `grpc_method="Txn"`, `grpc_method="LeaseKeepAlive"`)
	}
	return n
}

// forbidden returns a client that may not do anything.
func forbidden(t testing.TB) *clientv3.Client {
	e := testserver.StartEtcd(t)
	c := client(t, e.Addr())
	ctx := long(t)
	for _, name := range []string{"root", "nobody"} {
		_, err := c.UserAdd(ctx, name, "secret")
		require.NoError(t, err)
	}
	_, err := c.UserGrantRole(ctx, "root", "root")
	require.NoError(t, err)
	_, err = c.AuthEnable(ctx)
	require.NoError(t, err)
	return as(t, e, "nobody")
}

// as returns a client that has a name.
func as(t testing.TB, e *testserver.Etcd, user string) *clientv3.Client {
	c, err := clientv3.New(clientv3.Config{Endpoints: one(e), Username: user, Password: "secret"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// links are the ways to all members of a cluster.
type links []testserver.Link

func (l links) addrs() (addrs []string) {
	for _, p := range l {
		addrs = append(addrs, p.Addr())
	}
	return addrs
}

func (l links) each(f func(testserver.Link)) {
	for _, p := range l {
		f(p)
	}
}

func (l links) Delay(d time.Duration)  { l.each(func(p testserver.Link) { p.Delay(d) }) }
func (l links) Jitter(m time.Duration) { l.each(func(p testserver.Link) { p.Jitter(m) }) }
func (l links) BlackHole()             { l.each(testserver.Link.BlackHole) }
func (l links) Freeze()                { l.each(testserver.Link.Freeze) }
func (l links) Cut()                   { l.each(testserver.Link.Cut) }
func (l links) Heal()                  { l.each(testserver.Link.Heal) }
