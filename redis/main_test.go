package redis_test

import (
	"os"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/locktest"
	"github.com/fencelock/fencelock/redis"
)

// addrEnv tells a worker process where the server is.
const addrEnv = "FENCELOCK_REDIS_TEST_ADDR"

func TestMain(m *testing.M) {
	locktest.Work(func(opts ...fencelock.Option) (locktest.Locker, error) {
		return redis.New(goredis.NewClient(&goredis.Options{Addr: os.Getenv(addrEnv)}), opts...)
	})
	registerWorkers()
	testserver.Main(m)
}

// dial returns a client that ends with the test.
func dial(t testing.TB, addr string, set ...func(*goredis.Options)) *goredis.Client {
	t.Helper()
	o := &goredis.Options{Addr: addr}
	for _, f := range set {
		f(o)
	}
	c := goredis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
