package redis_test

import (
	"io"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testlock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/redis"

	"time"
)

// registerWorkers registers what other processes do in these tests.
func registerWorkers() {
	// hold acquires the name args[1] on the server args[0] with the TTL args[2],
	// says so and holds it until its input ends.
	testserver.RegisterWorker("hold", func(args []string, in io.Reader, out io.Writer) error {
		client := goredis.NewClient(&goredis.Options{Addr: args[0]})
		defer client.Close()
		ttl, err := time.ParseDuration(args[2])
		if err != nil {
			return err
		}
		l, err := redis.New(client, fencelock.TTL(ttl))
		if err != nil {
			return err
		}
		return testlock.Hold(l, args[1], in, out)
	})
}
