package redisnode

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock/internal/testserver"
)

func TestMain(m *testing.M) { testserver.Main(m) }

func dial(t testing.TB, addr string, set ...func(*redis.Options)) *redis.Client {
	t.Helper()
	o := &redis.Options{Addr: addr}
	for _, f := range set {
		f(o)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func open(t testing.TB, client Client) *Node {
	t.Helper()
	n, err := New(client)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
