//go:build unix

package main

import (
	"crypto/tls"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/etcd"
)

func openEtcd(a address, opts []fencelock.Option) (backend, error) {
	if err := a.plain(); err != nil {
		return backend{}, err
	}
	config := clientv3.Config{
		Endpoints: a.ports("2379"), DialTimeout: defTimeout,
		DialKeepAliveTime: 5 * time.Second, DialKeepAliveTimeout: 2 * time.Second, // a member that hangs is noticed
		Logger: zap.NewNop(), // it would print what it returns as well
	}
	if a.user != nil {
		config.Username = a.user.Username()
		config.Password, _ = a.user.Password()
	}
	if a.scheme == "etcds" {
		config.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	client, err := clientv3.New(config) // with a user, it asks the servers
	if err != nil {
		return backend{}, failure{exitUnreachable, err}
	}
	l, err := etcd.New(client, opts...)
	return with(l, err, func() { _ = client.Close() })
}
