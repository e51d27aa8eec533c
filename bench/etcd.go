package main

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/fencelock/fencelock/etcd"
	"github.com/fencelock/fencelock/internal/testserver"
)

func init() {
	starters["etcd"] = func(m *machine) server { return server{addrs: []string{testserver.StartEtcd(m).Addr()}} }
	register(
		contender{who: "fencelock/etcd", kind: "etcd", open: ourEtcd},
		contender{who: "etcd concurrency.Mutex", kind: "etcd", peer: true, open: openMutex},
	)
}

func dialEtcd(addrs []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: addrs, Logger: zap.NewNop()})
}

func ourEtcd(addrs []string) (locker, error) {
	c, err := dialEtcd(addrs)
	if err != nil {
		return nil, err
	}
	l, err := etcd.New(c)
	return ours{l, c.Close}, err
}

// mutexes are concurrency.Mutex, with a session for each goroutine that is in the
// way of another: within one session it does not exclude.
type mutexes struct {
	c    *clientv3.Client
	free chan *concurrency.Session
}

func openMutex(addrs []string) (locker, error) {
	c, err := dialEtcd(addrs)
	return mutexes{c, make(chan *concurrency.Session, 1000)}, err
}

func (m mutexes) Lock(ctx context.Context, name string) (func(context.Context) error, error) {
	var s *concurrency.Session
	select {
	case s = <-m.free:
	default:
		var err error
		if s, err = concurrency.NewSession(m.c); err != nil {
			return nil, err
		}
	}
	mutex := concurrency.NewMutex(s, "bench/"+name)
	if err := mutex.Lock(ctx); err != nil {
		m.free <- s
		return nil, err
	}
	return func(ctx context.Context) error {
		err := mutex.Unlock(ctx)
		m.free <- s
		return err
	}, nil
}

func (m mutexes) Close() error { return m.c.Close() }
