package redlock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/redlock"
)

func Example() {
	var nodes []redis.UniversalClient
	for _, addr := range []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"} {
		nodes = append(nodes, redis.NewClient(&redis.Options{Addr: addr}))
	}
	locker, err := redlock.New(nodes, fencelock.TTL(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(context.Background())

	err = fencelock.WithLock(context.Background(), locker, "invoices/2026-11",
		func(ctx context.Context, token fencelock.Token) error {
			fmt.Println("writing with token", token)
			return nil
		})
	if err != nil {
		log.Print(err)
	}
}

// sequence is a fencelock.TokenSource, such as a row in the database that the
// tokens guard.
type sequence struct{}

func (sequence) Next(context.Context, string) (fencelock.Token, error) {
	return 1, nil // UPDATE … SET token = token + 1 … RETURNING token
}

func ExampleTokens() {
	var nodes []redis.UniversalClient // three or five of them
	locker, err := redlock.New(nodes, redlock.Tokens(sequence{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close(context.Background())
	// Output: fencelock: redlock.New: 0 nodes: the number must be odd, or no majority would be left when half of them fail
}

// Nodes in one rack answer within a few milliseconds: do not wait two seconds for
// one that is down.
func ExampleNodeTimeout() {
	var nodes []redis.UniversalClient
	for _, addr := range []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"} {
		nodes = append(nodes, redis.NewClient(&redis.Options{Addr: addr}))
	}
	locker, err := redlock.New(nodes, redlock.NodeTimeout(100*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(context.Background())
}

func ExampleNew() {
	_, err := redlock.New([]redis.UniversalClient{
		redis.NewClient(&redis.Options{Addr: "10.0.0.1:6379"}),
		redis.NewClient(&redis.Options{Addr: "10.0.0.2:6379"}),
	})
	fmt.Println(err)
	// Output: fencelock: redlock.New: 2 nodes: the number must be odd, or no majority would be left when half of them fail
}
