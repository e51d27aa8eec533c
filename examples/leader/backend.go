package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	gozk "github.com/go-zookeeper/zk"
	goredis "github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/redis"
	"github.com/fencelock/fencelock/zk"
)

// backend is where the locks are and, behind a fence, the data.
type backend interface {
	fencelock.Locker
	admit(ctx context.Context, name string, t fencelock.Token) error
	read(ctx context.Context, name string) (string, error)
	write(ctx context.Context, name string, t fencelock.Token, text string) error
	close() error
}

func open(s settings) (backend, error) {
	u, err := url.Parse(s.On)
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "zk":
		return openZK(strings.Split(u.Host, ","), s.TTL)
	case "etcd":
		return openEtcd(strings.Split(u.Host, ","), s.TTL)
	case "redis":
		return openRedis(s.On, s.TTL)
	}
	return nil, fmt.Errorf("-on %s: none of zk://, etcd:// and redis://", s.On)
}

type onZK struct {
	*zk.Locker
	conn  *gozk.Conn
	fence *zk.Fence
}

func openZK(servers []string, ttl time.Duration) (backend, error) {
	locker, err := zk.New(servers, fencelock.TTL(ttl))
	if err != nil {
		return nil, err
	}
	conn, _, err := gozk.Connect(servers, 10*time.Second, gozk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	fence, err := zk.NewFence(conn)
	return onZK{locker, conn, fence}, err
}

func (b onZK) admit(ctx context.Context, name string, t fencelock.Token) error {
	return b.fence.Admit(ctx, name, t)
}

func dataPath(name string) string { return "/leader-" + strings.ReplaceAll(name, "/", "-") }

func (b onZK) read(_ context.Context, name string) (string, error) {
	data, _, err := b.conn.Get(dataPath(name))
	if errors.Is(err, gozk.ErrNoNode) {
		return "", nil
	}
	return string(data), err
}

func (b onZK) write(ctx context.Context, name string, t fencelock.Token, text string) error {
	err := b.fence.Set(ctx, name, t, dataPath(name), []byte(text))
	if errors.Is(err, gozk.ErrNoNode) {
		_, err = b.fence.Multi(ctx, name, t,
			&gozk.CreateRequest{Path: dataPath(name), Data: []byte(text), Acl: gozk.WorldACL(gozk.PermAll)})
	}
	return err
}

func (b onZK) close() error {
	defer b.conn.Close()
	return closeSoon(b.Locker)
}

type onRedis struct {
	*redis.Locker
	client *goredis.Client
	fence  *redis.Fence
}

func openRedis(on string, ttl time.Duration) (backend, error) {
	o, err := goredis.ParseURL(on)
	if err != nil {
		return nil, err
	}
	client := goredis.NewClient(o)
	locker, err := redis.New(client, fencelock.TTL(ttl))
	if err != nil {
		return nil, err
	}
	fence, err := redis.NewFence(client)
	return onRedis{locker, client, fence}, err
}

func (b onRedis) admit(ctx context.Context, name string, t fencelock.Token) error {
	return b.fence.Admit(ctx, name, t)
}

func (b onRedis) read(ctx context.Context, name string) (string, error) {
	text, err := b.client.Get(ctx, "{"+name+"}:data").Result()
	if errors.Is(err, goredis.Nil) {
		return "", nil
	}
	return text, err
}

func (b onRedis) write(ctx context.Context, name string, t fencelock.Token, text string) error {
	return b.fence.Set(ctx, name, t, "{"+name+"}:data", text)
}

func (b onRedis) close() error {
	defer b.client.Close()
	return closeSoon(b.Locker)
}

func closeSoon(l interface{ Close(context.Context) error }) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return l.Close(ctx)
}

// server returns the URL of a running server: the given one, or one that is
// started from the machine's programs and ends with stop.
func server(on string) (_ string, stop func() error, err error) {
	if on != "" {
		return on, func() error { return nil }, nil
	}
	var errs error
	for _, start := range []func(m *testserver.Machine) string{
		func(m *testserver.Machine) string { return "zk://" + testserver.StartZooKeeper(m).Addr() },
		func(m *testserver.Machine) string { return "redis://" + testserver.StartRedis(m).Addr() },
	} {
		m := &testserver.Machine{}
		err := m.Try(func() { on = start(m) })
		if err == nil {
			return on, m.Stop, nil
		}
		errs = errors.Join(errs, err, m.Stop())
	}
	return "", nil, errs
}
