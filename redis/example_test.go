package redis_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/redis"
)

func ExampleNew() {
	client := goredis.NewClient(&goredis.Options{Addr: "localhost:6379"})
	defer client.Close()
	locker, err := redis.New(client, fencelock.TTL(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(context.Background())

	err = fencelock.WithLock(context.Background(), locker, "invoices/2026-11",
		func(ctx context.Context, token fencelock.Token) error {
			fmt.Println("working with token", token)
			return nil
		}, fencelock.Wait(5*time.Second))
	if errors.Is(err, fencelock.ErrHeld) {
		fmt.Println("somebody else is at it")
	}
}

// A client of a Cluster serves as well.
func ExampleNew_cluster() {
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{"localhost:7000", "localhost:7001"}})
	defer client.Close()
	locker, err := redis.New(client)
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(context.Background())
}

// The data is in Redis, too: the new holder claims, reads, and its write counts
// only if no later holder has claimed meanwhile.
func ExampleFence() {
	client := goredis.NewClient(&goredis.Options{Addr: "localhost:6379"})
	defer client.Close()
	locker, err := redis.New(client) // github.com/fencelock/fencelock/redis
	if err != nil {
		log.Fatal(err)
	}
	fence, err := redis.NewFence(client)
	if err != nil {
		log.Fatal(err)
	}
	const name, key = "order:7", "{order:7}:total"
	err = fencelock.WithLock(context.Background(), locker, name,
		func(ctx context.Context, token fencelock.Token) error { // ctx ends when the lock is lost
			if err := fence.Admit(ctx, name, token); err != nil { // claim, then read
				return err
			}
			total, err := client.Get(ctx, key).Int()
			if err != nil && err != goredis.Nil {
				return err
			}
			return fence.Set(ctx, name, token, key, total+10) // refused if a later holder has been here
		}, fencelock.TTL(10*time.Second))
	if errors.Is(err, fencelock.ErrStale) {
		fmt.Println("overtaken by a later holder; nothing was written")
	}
}

// A script of one's own runs only if the token is admitted. Strict lets each
// token write once, so that a repeated increment is refused.
func ExampleFence_Do() {
	client := goredis.NewClient(&goredis.Options{Addr: "localhost:6379"})
	defer client.Close()
	fence, err := redis.NewFence(client)
	if err != nil {
		log.Fatal(err)
	}
	var token fencelock.Token = 1764547200000000 // of the lock
	_, err = fence.Strict().Do(context.Background(), "stock", token,
		`return redis.call('DECRBY', KEYS[1], ARGV[1])`, []string{"{stock}:left"}, 3)
	if errors.Is(err, fencelock.ErrStale) {
		fmt.Println("refused")
	}
}

// Behind Sentinel the client finds the master. WAIT makes it likelier, and no more,
// that a failover keeps the locks.
func ExampleMinReplicas() {
	client := goredis.NewFailoverClient(&goredis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{"sentinel1:26379"}})
	defer client.Close()
	locker, err := redis.New(client, redis.MinReplicas(1, 50*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(context.Background())
	_, err = locker.TryAcquire(context.Background(), "invoices/2026-11")
	if errors.Is(err, redis.ErrReplicas) {
		fmt.Println("the replicas are behind; the lock was given back")
	}
}

func ExampleNewTokens() {
	client := goredis.NewClient(&goredis.Options{Addr: "localhost:6379"})
	defer client.Close()
	tokens, err := redis.NewTokens(client)
	if err != nil {
		log.Fatal(err)
	}
	token, err := tokens.Next(context.Background(), "invoices")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(token)
}
