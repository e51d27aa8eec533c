package redlock

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/locktest"
)

func TestConformance(t *testing.T) {
	nodes := start(t, 3)
	locktest.Run(t, locktest.Backend{
		New: func(t testing.TB, opts ...fencelock.Option) locktest.Locker {
			return dial(t, nodes.addrs(), opts...)
		},
		Via: func(t testing.TB, opts ...fencelock.Option) (locktest.Locker, locktest.Link) {
			var far links
			var addrs []string
			for _, s := range nodes {
				p := testserver.NewProxy(t, s.Addr())
				far, addrs = append(far, p), append(addrs, p.Addr())
			}
			return dial(t, addrs, opts...), far
		},
		Refused: func(t testing.TB, opts ...fencelock.Option) locktest.Locker {
			var addrs []string
			for range nodes {
				p := testserver.NewProxy(t, nodes[0].Addr())
				p.Cut()
				addrs = append(addrs, p.Addr())
			}
			return dial(t, addrs, opts...)
		},
		Broken: func(t testing.TB, opts ...fencelock.Option) locktest.Locker {
			var all []redis.UniversalClient
			for _, s := range nodes {
				s.Do("ACL", "SETUSER", "reader", "on", ">secret", "~elsewhere*", "+@all")
				c := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "reader", Password: "secret"})
				t.Cleanup(func() { c.Close() })
				all = append(all, c)
			}
			l, err := New(all, opts...)
			require.NoError(t, err)
			return l
		},
		Delete: func(_ testing.TB, name string) {
			for _, s := range nodes {
				s.Do("DEL", "fencelock/"+name)
			}
		},
		Residue: func(testing.TB) []string { return nodes.residue() },
		Commands: func(testing.TB) (n int) {
			for _, s := range nodes {
				n += s.Calls("eval", "evalsha")
			}
			return n
		},
		Worker: func(testing.TB) *exec.Cmd {
			return locktest.Self(nodesVar + "=" + strings.Join(nodes.addrs(), ","))
		},
		// A node is waited for three quarters of it, on a busy machine too; and three trips of a
		// slow link, 35 % each, must fit into NodeTimeout.
		TTL: 1200 * time.Millisecond,
	})
}

// links is the connections of one Locker to all nodes.
type links []*testserver.Proxy

func (l links) Delay(d time.Duration) {
	for _, p := range l {
		p.Delay(testserver.ToClient, d, 0)
	}
}

func (l links) Jitter(most time.Duration) {
	for _, p := range l {
		p.Delay(testserver.Both, 0, most)
	}
}

func (l links) BlackHole() {
	for _, p := range l {
		p.Drop(testserver.Both)
	}
}

func (l links) Freeze() {
	for _, p := range l {
		p.Freeze(testserver.Both)
	}
}

func (l links) Cut() {
	for _, p := range l {
		p.Cut()
	}
}

func (l links) Heal() {
	for _, p := range l {
		p.Delay(testserver.Both, 0, 0)
		p.Heal()
	}
}
