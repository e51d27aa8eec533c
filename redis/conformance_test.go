package redis_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/locktest"
	"github.com/fencelock/fencelock/redis"
)

func TestConformance(t *testing.T) {
	server := testserver.StartRedis(t)
	broken := testserver.StartRedis(t)
	broken.Do("ACL", "SETUSER", "default", "-@scripting")
	open := func(t testing.TB, addr string, opts []fencelock.Option) locktest.Locker {
		l, err := redis.New(dial(t, addr), opts...)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	locktest.Run(t, locktest.Backend{
		New: func(t testing.TB, opts ...fencelock.Option) locktest.Locker { return open(t, server.Addr(), opts) },
		Via: func(t testing.TB, opts ...fencelock.Option) (locktest.Locker, locktest.Link) {
			p := testserver.NewProxy(t, server.Addr())
			return open(t, p.Addr(), opts), testserver.Link{Proxy: p}
		},
		Refused: func(t testing.TB, opts ...fencelock.Option) locktest.Locker {
			p := testserver.NewProxy(t, server.Addr())
			p.Cut()
			return open(t, p.Addr(), opts)
		},
		Broken: func(t testing.TB, opts ...fencelock.Option) locktest.Locker {
			return open(t, broken.Addr(), opts)
		},
		Delete:   func(_ testing.TB, name string) { server.Do("DEL", "fencelock/"+name) },
		Residue:  func(testing.TB) []string { return residue(server) },
		Commands: func(testing.TB) int { return server.Calls("EVAL", "EVALSHA", "SUBSCRIBE") },
		TTL:      2 * time.Second,
		Worker:   func(testing.TB) *exec.Cmd { return locktest.Self(addrEnv + "=" + server.Addr()) },
	})
}

// residue lists locks, queues and subscriptions. Counters and tombstones stay.
func residue(server *testserver.Redis) (left []string) {
	for _, k := range server.Do("KEYS", "*").([]any) {
		key := k.(string)
		if !strings.HasPrefix(key, "{") {
			left = append(left, key)
		} else if queue, _ := server.Do("HGET", key, "q").(string); queue != "" {
			left = append(left, key+": "+queue)
		}
	}
	for _, c := range server.Do("PUBSUB", "CHANNELS").([]any) {
		left = append(left, "channel "+c.(string))
	}
	return left
}
