package locktest

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/fencelock/fencelock"
)

func withLockReleases(k *kit) {
	l, other, name := k.locker(), k.locker(), k.name()
	own := errors.New("fn's error")
	type key struct{}
	ctx := context.WithValue(k.ctx(long), key{}, "value")
	var inside context.Context
	for _, want := range []error{nil, own} {
		err := fencelock.WithLock(ctx, l, name, func(ctx context.Context, token fencelock.Token) error {
			inside = ctx
			if ctx.Err() != nil || ctx.Value(key{}) != "value" || token <= 0 {
				k.Errorf("fn got ctx %v, token %d", ctx, token)
			}
			k.taken(other, name)
			return want
		})
		if !errors.Is(err, want) || want == nil && err != nil {
			k.Errorf("WithLock: %v, want %v", err, want)
		}
		if inside != nil && inside.Err() == nil {
			k.Error("the ctx of fn lives on")
		}
		k.free(other, name, soon)
	}

	func() {
		defer func() {
			if r := recover(); r != "oops" {
				k.Errorf("WithLock swallowed a panic, recovered %v", r)
			}
		}()
		_ = fencelock.WithLock(ctx, l, name, func(context.Context, fencelock.Token) error { panic("oops") })
	}()
	k.free(other, name, soon)

	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = fencelock.WithLock(ctx, l, name, func(context.Context, fencelock.Token) error {
			runtime.Goexit()
			return nil
		})
		k.Error("WithLock swallowed a Goexit")
	}()
	<-exited
	k.free(other, name, soon)

	lock := k.acquire(other, name)
	err := fencelock.WithLock(ctx, l, name, func(context.Context, fencelock.Token) error {
		k.Error("fn was called without the lock")
		return nil
	}, fencelock.Wait(0))
	if !errors.Is(err, fencelock.ErrHeld) {
		k.Errorf("WithLock with Wait(0): %v, want ErrHeld", err)
	}
	k.release(lock)
}

// A loss that is known is never a nil error, and ends the ctx of fn.
func withLockLoss(k *kit) {
	k.needsDelete()
	l, own := k.locker(k.short()), errors.New("fn's error")
	for _, want := range []error{nil, own} {
		name := k.name()
		err := fencelock.WithLock(k.ctx(long), l, name, func(ctx context.Context, token fencelock.Token) error {
			k.b.Delete(k, name)
			select {
			case <-ctx.Done():
			case <-time.After(k.b.TTL + soon):
				k.Error("the ctx of fn did not end with the lock")
			}
			var lost *fencelock.LostError
			if cause := context.Cause(ctx); !errors.As(cause, &lost) || lost.Token != token || lost.Name != name {
				k.Errorf("the cause of fn's ctx is %v, want a *LostError", cause)
			}
			return want
		})
		if !errors.Is(err, fencelock.ErrLost) {
			k.Errorf("WithLock after a loss: %v, want ErrLost", err)
		}
		if want != nil && !errors.Is(err, want) {
			k.Errorf("WithLock after a loss: %v, want fn's error too", err)
		}
	}
}

// A17: a bound on the hold is one ctx away.
func withLockBound(k *kit) {
	l, other, name := k.locker(), k.locker(), k.name()
	err := fencelock.WithLock(k.ctx(2*k.b.TTL), l, name, func(ctx context.Context, _ fencelock.Token) error {
		k.taken(other, name)
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			k.Errorf("the cause is %v", context.Cause(ctx))
		}
		return nil
	})
	if err != nil {
		k.Errorf("WithLock: %v", err)
	}
	k.free(other, name, soon)
}
