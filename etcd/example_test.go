package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/etcd"
)

func ExampleNew() {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"etcd1:2379", "etcd2:2379", "etcd3:2379"},
		// So that a member is noticed that hangs.
		DialKeepAliveTime: 5 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	locker, err := etcd.New(client, fencelock.TTL(10*time.Second))
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

// The data is in etcd, too: the new holder claims, reads, and its write counts only
// if no later holder has claimed meanwhile.
func ExampleFence() {
	client, err := clientv3.NewFromURL("etcd1:2379")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	locker, err := etcd.New(client)
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(context.Background())
	fence, err := etcd.NewFence(client)
	if err != nil {
		log.Fatal(err)
	}
	err = fencelock.WithLock(context.Background(), locker, "config",
		func(ctx context.Context, token fencelock.Token) error {
			if err := fence.Admit(ctx, "config", token); err != nil {
				return err
			}
			resp, err := client.Get(ctx, "app/config")
			if err != nil {
				return err
			}
			config := ""
			for _, kv := range resp.Kvs {
				config = string(kv.Value)
			}
			return fence.Put(ctx, "config", token, "app/config", config+"new line\n")
		})
	if errors.Is(err, fencelock.ErrStale) {
		fmt.Println("overtaken by a later holder; nothing was written")
	}
}

// A transaction of one's own, with the fence's comparisons added to it.
func ExampleFence_Txn() {
	client, err := clientv3.NewFromURL("etcd1:2379")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fence, err := etcd.NewFence(client)
	if err != nil {
		log.Fatal(err)
	}
	var token fencelock.Token // of the hold
	resp, err := fence.Txn(context.Background(), "stock", token,
		[]clientv3.Cmp{clientv3.Compare(clientv3.Value("stock/left"), "=", "1")},
		[]clientv3.Op{clientv3.OpDelete("stock/left"), clientv3.OpPut("stock/sold", "all")},
		nil)
	switch {
	case errors.Is(err, fencelock.ErrStale):
		fmt.Println("overtaken by a later holder; nothing was written")
	case err == nil && resp.Succeeded:
		fmt.Println("sold the last one")
	}
}

func ExampleNewTokens() {
	client, err := clientv3.NewFromURL("etcd1:2379")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	tokens, err := etcd.NewTokens(client)
	if err != nil {
		log.Fatal(err)
	}
	token, err := tokens.Next(context.Background(), "invoices")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(token)
}
