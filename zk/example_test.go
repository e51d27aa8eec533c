package zk_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/zk"
)

func ExampleNew() {
	locker, err := zk.New([]string{"zk1:2181", "zk2:2181", "zk3:2181"}, fencelock.TTL(10*time.Second))
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

// The nodes belong to the one user, and the connections are encrypted.
func ExampleNew_secure() {
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}}
	locker, err := zk.New([]string{"zk1:2281"},
		zk.Dialer(dialer.DialContext),
		zk.Auth("digest", []byte("billing:secret")),
		zk.ACL(gozk.AuthACL(gozk.PermAll)...),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(context.Background())
}

// The data is in ZooKeeper, too: the new holder claims, reads, and its write counts
// only if no later holder has claimed meanwhile.
func ExampleFence() {
	servers := []string{"zk1:2181", "zk2:2181", "zk3:2181"}
	locker, err := zk.New(servers)
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(context.Background())
	conn, _, err := gozk.Connect(servers, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	fence, err := zk.NewFence(conn)
	if err != nil {
		log.Fatal(err)
	}
	err = fencelock.WithLock(context.Background(), locker, "config",
		func(ctx context.Context, token fencelock.Token) error {
			if err := fence.Admit(ctx, "config", token); err != nil {
				return err
			}
			data, _, err := conn.Get("/app/config")
			if err != nil {
				return err
			}
			return fence.Set(ctx, "config", token, "/app/config", append(data, "\nnew line"...))
		})
	if errors.Is(err, fencelock.ErrStale) {
		fmt.Println("overtaken by a later holder; nothing was written")
	}
}

func ExampleNewTokens() {
	conn, _, err := gozk.Connect([]string{"zk1:2181"}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	tokens, err := zk.NewTokens(conn)
	if err != nil {
		log.Fatal(err)
	}
	token, err := tokens.Next(context.Background(), "invoices")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(token)
}
