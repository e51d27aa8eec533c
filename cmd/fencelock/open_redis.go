//go:build unix

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/redis"
	"github.com/fencelock/fencelock/redlock"
)

var redisStyles = map[string]opener{
	"": openRedis, "cluster": openCluster, "sentinel": openSentinel, "redlock": openRedlock,
}

// The client would print what goes wrong, and return it as well.
func init() { goredis.SetLogger(silent{}) }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func openRedis(a address, opts []fencelock.Option) (backend, error) {
	clients, err := a.redis()
	if err != nil {
		return backend{}, err
	}
	if len(clients) > 1 {
		return backend{}, errors.New("it has more than one host: say redis+cluster, redis+sentinel or redis+redlock")
	}
	client := goredis.NewClient(clients[0])
	l, err := redis.New(client, opts...)
	return with(l, err, func() { _ = client.Close() })
}

// redis returns what it takes to talk to each host by itself.
func (a address) redis() (all []*goredis.Options, err error) {
	for _, host := range a.ports("6379") {
		o, err := goredis.ParseURL(a.one(a.scheme, host))
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

func openCluster(a address, opts []fencelock.Option) (backend, error) {
	hosts := a.ports("6379")
	for _, h := range hosts[1:] {
		a.query.Add("addr", h)
	}
	o, err := goredis.ParseClusterURL(a.one(a.scheme, hosts[0]))
	if err != nil {
		return backend{}, err
	}
	client := goredis.NewClusterClient(o)
	l, err := redis.New(client, opts...)
	return with(l, err, func() { _ = client.Close() })
}

func openSentinel(a address, opts []fencelock.Option) (backend, error) {
	master, db, _ := strings.Cut(strings.Trim(a.path, "/"), "/")
	if master == "" {
		return backend{}, errors.New("the name of the master is missing: redis+sentinel://HOST,HOST.../MASTER")
	}
	o := &goredis.FailoverOptions{
		MasterName: master, SentinelAddrs: a.ports("26379"),
		SentinelUsername: a.take("sentinel_username"), SentinelPassword: a.take("sentinel_password"),
	}
	if a.user != nil {
		o.Username = a.user.Username()
		o.Password, _ = a.user.Password()
	}
	if a.scheme == "rediss" {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if db != "" {
		var err error
		if o.DB, err = strconv.Atoi(db); err != nil {
			return backend{}, errors.New("what comes after the master is not the number of a database")
		}
	}
	if err := a.only(); err != nil {
		return backend{}, err
	}
	client := goredis.NewFailoverClient(o)
	l, err := redis.New(client, opts...)
	return with(l, err, func() { _ = client.Close() })
}

func openRedlock(a address, opts []fencelock.Option) (backend, error) {
	nodes, err := a.redis()
	if err != nil {
		return backend{}, err
	}
	clients := make([]goredis.UniversalClient, len(nodes))
	for i, o := range nodes {
		clients[i] = goredis.NewClient(o)
	}
	l, err := redlock.New(clients, opts...)
	return with(l, err, func() {
		for _, c := range clients {
			_ = c.Close()
		}
	})
}
