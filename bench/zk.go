package main

import (
	"context"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/zk"
)

func init() {
	starters["zk"] = func(m *machine) server { return server{addrs: []string{testserver.StartZooKeeper(m).Addr()}} }
	register(
		contender{who: "fencelock/zk", kind: "zk", open: ourZK},
		contender{who: "go-zookeeper Lock", kind: "zk", peer: true, open: openZKLock},
	)
}

func ourZK(addrs []string) (locker, error) {
	l, err := zk.New(addrs)
	return ours{l, func() error { return nil }}, err
}

type zkLock struct{ *gozk.Conn }

type silent struct{}

func (silent) Printf(string, ...any) {}

func openZKLock(addrs []string) (locker, error) {
	c, events, err := gozk.Connect(addrs, 10*time.Second, gozk.WithLogger(silent{}))
	if err != nil {
		return nil, err
	}
	go func() {
		for range events { //nolint:revive // nobody wants them
		}
	}()
	return zkLock{c}, nil
}

// Lock waits without ctx, which the recipe has not.
func (z zkLock) Lock(_ context.Context, name string) (func(context.Context) error, error) {
	l := gozk.NewLock(z.Conn, "/"+name, gozk.WorldACL(gozk.PermAll))
	if err := l.Lock(); err != nil {
		return nil, err
	}
	return func(context.Context) error { return l.Unlock() }, nil
}

func (z zkLock) Close() error { z.Conn.Close(); return nil }
