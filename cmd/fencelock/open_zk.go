//go:build unix

package main

import (
	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/zk"
)

func openZK(a address, opts []fencelock.Option) (backend, error) {
	if err := a.plain(); err != nil {
		return backend{}, err
	}
	if a.user != nil {
		opts = append(opts, zk.Auth("digest", []byte(userPassword(a))))
	}
	l, err := zk.New(a.hosts, opts...)
	return with(l, err, nil)
}

// userPassword returns user:password as it was before it was made part of a URL.
func userPassword(a address) string {
	password, _ := a.user.Password()
	return a.user.Username() + ":" + password
}
