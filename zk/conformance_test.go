package zk_test

import (
	"os/exec"
	"strconv"
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

func TestConformance(t *testing.T) {
	t.Parallel()
	z := testserver.StartZooKeeper(t, noReaping)
	conform(t, []string{z.Addr()}, func() *testserver.ZooKeeper { return z })
}

func TestConformanceOfAnEnsemble(t *testing.T) {
	t.Parallel()
	e := testserver.ZooKeeperEnsemble(t, noReaping)
	conform(t, e.Addrs(), e.Leader) // it may change on a machine that is busy enough
}

// noReaping keeps the server from changes of its own: it would remove empty
// containers once a minute.
const noReaping = "-Dznode.container.checkIntervalMs=3600000"

func conform(t *testing.T, addrs []string, leader func() *testserver.ZooKeeper) {
	broken := testserver.StartZooKeeper(t)
	forbid(t, broken)
	open := func(t testing.TB, addrs []string, opts []fencelock.Option) locktest.Locker {
		l, err := zk.New(addrs, opts...)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	locktest.Run(t, locktest.Backend{
		New: func(t testing.TB, opts ...fencelock.Option) locktest.Locker { return open(t, addrs, opts) },
		Via: func(t testing.TB, opts ...fencelock.Option) (locktest.Locker, locktest.Link) {
			var via links
			for _, addr := range addrs {
				via = append(via, testserver.NewProxy(t, addr))
			}
			return open(t, via.addrs(), opts), via
		},
		Refused: func(t testing.TB, opts ...fencelock.Option) locktest.Locker {
			p := testserver.NewProxy(t, addrs[0])
			p.Cut()
			return open(t, []string{p.Addr()}, opts)
		},
		Broken: func(t testing.TB, opts ...fencelock.Option) locktest.Locker {
			return open(t, []string{broken.Addr()}, opts)
		},
		Delete: func(t testing.TB, name string) {
			c, events, err := gozk.Connect(addrs, 20*time.Second, gozk.WithLogger(silent{}))
			require.NoError(t, err)
			defer func() {
				c.Close()
				for range events {
				}
			}()
			children, _, err := c.Children(parent(name))
			require.NoError(t, err)
			first, _ := zk.Front(children)
			require.NoError(t, c.Delete(parent(name)+"/"+first, -1))
		},
		Residue: func(testing.TB) []string {
			var left []string
			for _, id := range leader().Sessions() {
				left = append(left, "session "+id)
			}
			return append(left, leader().Ephemerals()...)
		},
		Commands: func(t testing.TB) int {
			return writes(t, leader()) - metric(leader(), "zk_cnt_close_session_prep_time")
		},
		TTL:      2 * time.Second,
		FixedTTL: true,
		Worker:   func(testing.TB) *exec.Cmd { return locktest.Self(addrEnv + "=" + strings.Join(addrs, ",")) },
	})
}

// forbid makes a server on which nobody may lock.
func forbid(t testing.TB, z *testserver.ZooKeeper) {
	c := client(t, z.Addr())
	_, err := c.Create("/fencelock", nil, gozk.FlagPersistent, gozk.WorldACL(gozk.PermRead))
	require.NoError(t, err)
}

// writes is the number of changes so far, those of sessions among them.
func writes(t testing.TB, z *testserver.ZooKeeper) int {
	for line := range strings.Lines(z.Ask("srvr")) {
		if hex, ok := strings.CutPrefix(line, "Zxid: 0x"); ok {
			zxid, err := strconv.ParseInt(strings.TrimSpace(hex), 16, 64)
			require.NoError(t, err)
			return int(zxid & 0xffffffff)
		}
	}
	t.Fatal("no zxid")
	return 0
}

// metric reads a number that a server keeps, 0 if it does not yet.
func metric(z *testserver.ZooKeeper, name string) int {
	n, _ := strconv.ParseFloat(field(z.Ask("mntr"), name), 64)
	return int(n)
}

// field returns the value of one line of a server's answer.
func field(answer, name string) string {
	for line := range strings.Lines(answer) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			return f[1]
		}
	}
	return ""
}

// links are the ways to all members of an ensemble.
type links []*testserver.Proxy

func (l links) addrs() (addrs []string) {
	for _, p := range l {
		addrs = append(addrs, p.Addr())
	}
	return addrs
}

func (l links) each(f func(*testserver.Proxy)) {
	for _, p := range l {
		f(p)
	}
}

func (l links) Delay(d time.Duration) {
	l.each(func(p *testserver.Proxy) { p.Delay(testserver.ToClient, d, 0) })
}
func (l links) Jitter(m time.Duration) {
	l.each(func(p *testserver.Proxy) { p.Delay(testserver.Both, 0, m) })
}
func (l links) BlackHole() { l.each(func(p *testserver.Proxy) { p.Drop(testserver.Both) }) }
func (l links) Freeze()    { l.each(func(p *testserver.Proxy) { p.Freeze(testserver.Both) }) }
func (l links) Cut()       { l.each((*testserver.Proxy).Cut) }
func (l links) Heal() {
	l.each((*testserver.Proxy).Heal)
	l.each(func(p *testserver.Proxy) { p.Delay(testserver.Both, 0, 0) })
}
