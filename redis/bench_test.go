package redis_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock/internal/testlock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/redis"
)

// The floor is what a lock without token, renewal or queue costs: SET NX PX and
// a script that compares and deletes.
var compareDelete = goredis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

func floor(ctx context.Context, c *goredis.Client, key string) error {
	var id [16]byte
	rand.Read(id[:])
	owner := hex.EncodeToString(id[:])
	if ok, err := c.SetNX(ctx, key, owner, 30*time.Second).Result(); err != nil || !ok {
		return fmt.Errorf("taken: %w", err)
	}
	return compareDelete.Run(ctx, c, []string{key}, owner).Err()
}

func BenchmarkSolo(b *testing.B) { compare(b, 1) }

func BenchmarkPar(b *testing.B) { compare(b, 64) }

// compare runs the floor and ours by turns, so that what else the machine does
// falls on both.
func compare(b *testing.B, goroutines int) {
	s := testserver.SharedRedis(b)
	prefix := testserver.Prefix(b)
	client, client2 := dial(b, s.Addr()), dial(b, s.Addr())
	l, err := redis.New(client2)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	testlock.Compare(b, goroutines, 2000, "floor",
		func(g int) error { return floor(ctx, client, fmt.Sprint(prefix, g)) },
		func(g int) error { return testlock.Once(ctx, l, fmt.Sprint(prefix, g)) })
}
