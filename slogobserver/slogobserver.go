// Package slogobserver logs what happens to locks, by log/slog:
//
//	locker, err := redis.New(client, fencelock.Observe(slogobserver.New(slog.Default())))
//
// What needs nobody's attention is logged at level Debug, so a logger at the usual
// level says nothing as long as all is well:
//
//	acquired, renewed, released, refused since held       Debug
//	the wait ended with its ctx                           Debug
//	lost with the Locker's Close                          Info
//	acquire, renewal or release failed; a warning         Warn
//	lost otherwise                                        Error
//
// Records have the attributes lock, token, took (for a loss: how long it was
// held), passed and error, where there are such. The ctx is that of Acquire, for
// handlers that look for a trace in it.
package slogobserver

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/fencelock/fencelock"
)

// New returns a function for fencelock.Observe that logs to l, or to
// slog.Default() if l is nil.
func New(l *slog.Logger) func(context.Context, fencelock.Event) {
	return func(ctx context.Context, e fencelock.Event) {
		l := l
		if l == nil {
			l = slog.Default()
		}
		level, text := describe(e)
		if !l.Enabled(ctx, level) {
			return
		}
		var attrs []slog.Attr
		if e.Name != "" {
			attrs = append(attrs, slog.String("lock", e.Name))
		}
		if e.Token > 0 {
			attrs = append(attrs, slog.Int64("token", int64(e.Token)))
		}
		if !e.Start.IsZero() {
			attrs = append(attrs, slog.Duration("took", time.Since(e.Start)))
		}
		if e.Passed {
			attrs = append(attrs, slog.Bool("passed", true))
		}
		if e.Err != nil {
			attrs = append(attrs, slog.Any("error", e.Err))
		}
		l.LogAttrs(ctx, level, text, attrs...)
	}
}

func describe(e fencelock.Event) (slog.Level, string) {
	var lost *fencelock.LostError
	switch {
	case e.Kind == fencelock.EventWarn:
		return slog.LevelWarn, "lock warning"
	case e.Kind == fencelock.EventRenew: // its loss is an event of its own
	case errors.As(e.Err, &lost) && lost.Reason == fencelock.Closed:
		return slog.LevelInfo, "lock lost"
	case errors.As(e.Err, &lost):
		return slog.LevelError, "lock lost"
	}
	texts := map[fencelock.EventKind][2]string{
		fencelock.EventAcquire: {"lock acquired", "lock not acquired"},
		fencelock.EventRenew:   {"lock renewed", "lock not renewed"},
		fencelock.EventRelease: {"lock released", "lock not released"},
	}[e.Kind]
	switch {
	case e.Err == nil:
		return slog.LevelDebug, texts[0]
	case errors.Is(e.Err, fencelock.ErrHeld), e.Kind == fencelock.EventAcquire && ended(e.Err):
		return slog.LevelDebug, texts[1]
	}
	return slog.LevelWarn, texts[1]
}

// ended reports whether the caller's ctx ended the wait.
func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
