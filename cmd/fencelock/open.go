//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencelock/fencelock"
)

// locker is what every backend of the module is.
type locker interface {
	fencelock.Breaker
	Close(ctx context.Context) error
}

// backend is an open locker and what it stands on.
type backend struct {
	locker
	migrate    func(context.Context) error // nil: there is nothing to do
	disconnect func()                      // nil: the locker does it
}

// opener makes a backend of a URL. It need not connect.
type opener func(a address, opts []fencelock.Option) (backend, error)

// openers are the schemes, with the styles that may follow after a "+".
var openers = map[string]map[string]opener{
	"redis":      redisStyles,
	"rediss":     redisStyles,
	"postgres":   postgresStyles,
	"postgresql": postgresStyles,
	"mysql":      mysqlStyles,
	"etcd":       {"": openEtcd},
	"etcds":      {"": openEtcd},
	"zk":         {"": openZK},
}

// closeWait bounds the good-bye to the servers.
const closeWait = 2 * time.Second

// open makes the backend that a URL names, and tells out what must not be printed.
func open(url string, out *output, opts ...fencelock.Option) (backend, error) {
	a, err := parse(url)
	if err != nil {
		return backend{}, err
	}
	out.secrets = append(out.secrets, a.secrets()...)
	styles, ok := openers[a.scheme]
	if !ok {
		return backend{}, fmt.Errorf("there are no servers of the kind %q; see fencelock help", a.scheme)
	}
	open, ok := styles[a.style]
	if !ok {
		return backend{}, fmt.Errorf("%s has no style %q; see fencelock help", a.scheme, a.style)
	}
	b, err := open(a, opts)
	if err != nil {
		return backend{}, fmt.Errorf("the %s URL: %w", a.scheme, err)
	}
	return b, nil
}

// close says good-bye.
func (b backend) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	err := b.Close(ctx)
	if b.disconnect != nil {
		b.disconnect()
	}
	return err
}

// with makes a backend of what a constructor of the module returns.
func with[L locker](l L, err error, disconnect func()) (backend, error) {
	if err != nil {
		if disconnect != nil {
			disconnect()
		}
		return backend{}, errors.New(strings.TrimPrefix(err.Error(), "fencelock: "))
	}
	return backend{locker: l, disconnect: disconnect}, nil
}

// plain refuses what not every kind of servers knows.
func (a address) plain() error {
	if a.path != "" && a.path != "/" {
		return errors.New("it has a path: give --prefix instead")
	}
	return a.only()
}

// only refuses what the servers do not know in a query.
func (a address) only() error {
	for key := range a.query {
		return fmt.Errorf("it knows no %q after the ?", key)
	}
	return nil
}
