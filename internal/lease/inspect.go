package lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencelock/fencelock"
)

// Inspector is a Driver that looks at locks from outside, whoever holds them.
type Inspector interface {
	// Status says what the server knows of key.
	Status(ctx context.Context, key string) (fencelock.Status, error)

	// Break ends the hold that Status shows with the token first, and no other,
	// so that its attempt cannot come back, its renewals and its Release are told
	// of a loss, and the next waiter gets the lock as from a Release. It returns
	// nil if there is no such hold (any more).
	Break(ctx context.Context, key string, first fencelock.Token) error
}

// Status implements fencelock.Inspector.
func (l *Locker) Status(ctx context.Context, name string) (s fencelock.Status, err error) {
	err = l.inspect("status", name, func(d Inspector) error {
		s, err = d.Status(ctx, l.Key(name))
		return err
	})
	return s, err
}

// Break implements fencelock.Breaker.
func (l *Locker) Break(ctx context.Context, name string, t fencelock.Token) error {
	return l.inspect("break", name, func(d Inspector) error {
		if t <= 0 {
			return fmt.Errorf("%d is no token", t)
		}
		return d.Break(ctx, l.Key(name), t)
	})
}

func (l *Locker) inspect(verb, name string, f func(Inspector) error) error {
	if err := CheckName(name); err != nil {
		return err
	}
	d, ok := l.driver.(Inspector)
	if !ok {
		return wrap(verb, name, errors.ErrUnsupported)
	}
	if err := f(d); err != nil {
		return wrap(verb, name, unmark(err))
	}
	return nil
}
