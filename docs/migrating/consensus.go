package migrating

import (
	"context"

	gozk "github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/etcd"
	"github.com/fencelock/fencelock/zk"
)

func etcdOld(ctx context.Context, client *clientv3.Client, report func(context.Context) error) error {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(30))
	if err != nil {
		return err
	}
	defer session.Close()
	mutex := concurrency.NewMutex(session, "/locks/report")
	if err := mutex.Lock(ctx); err != nil {
		return err
	}
	defer mutex.Unlock(ctx)
	return report(ctx) // look at session.Done now and then
}

func etcdNew(ctx context.Context, client *clientv3.Client, report func(context.Context, fencelock.Token) error) error {
	locker, err := etcd.New(client) // it keeps a lease while there is something to keep
	if err != nil {
		return err
	}
	return fencelock.WithLock(ctx, locker, "report", report)
}

func zkOld(conn *gozk.Conn, report func() error) error {
	lock := gozk.NewLock(conn, "/locks/report", gozk.WorldACL(gozk.PermAll))
	if err := lock.Lock(); err != nil { // waits for ever
		return err
	}
	defer lock.Unlock()
	return report() // look at the session's events
}

func zkNew(ctx context.Context, servers []string, report func(context.Context, fencelock.Token) error) error {
	locker, err := zk.New(servers, fencelock.Prefix("locks/")) // it has a session of its own
	if err != nil {
		return err
	}
	defer locker.Close(context.WithoutCancel(ctx))
	return fencelock.WithLock(ctx, locker, "report", report)
}
