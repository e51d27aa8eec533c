package main

import (
	"context"

	"github.com/fencelock/fencelock"
)

// ours adapts a Locker. The client belongs to it.
type ours struct {
	l interface {
		fencelock.Locker
		Close(context.Context) error
	}
	close func() error
}

func (o ours) Lock(ctx context.Context, name string) (func(context.Context) error, error) {
	lock, err := o.l.Acquire(ctx, name)
	if err != nil {
		return nil, err
	}
	return lock.Release, nil
}

func (o ours) Close() error {
	_ = o.l.Close(context.Background())
	return o.close()
}
