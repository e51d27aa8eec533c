package main

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/etcd"
)

type onEtcd struct {
	*etcd.Locker
	client *clientv3.Client
	fence  *etcd.Fence
}

func openEtcd(endpoints []string, ttl time.Duration) (backend, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, DialKeepAliveTime: 5 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	locker, err := etcd.New(client, fencelock.TTL(ttl))
	if err != nil {
		return nil, err
	}
	fence, err := etcd.NewFence(client)
	return onEtcd{locker, client, fence}, err
}

func (b onEtcd) admit(ctx context.Context, name string, t fencelock.Token) error {
	return b.fence.Admit(ctx, name, t)
}

func (b onEtcd) read(ctx context.Context, name string) (string, error) {
	resp, err := b.client.Get(ctx, "leader/"+name)
	if err != nil || len(resp.Kvs) == 0 {
		return "", err
	}
	return string(resp.Kvs[0].Value), nil
}

func (b onEtcd) write(ctx context.Context, name string, t fencelock.Token, text string) error {
	return b.fence.Put(ctx, name, t, "leader/"+name, text)
}

func (b onEtcd) close() error {
	defer b.client.Close() //nolint:errcheck // the process ends
	return closeSoon(b.Locker)
}
