package lease

import (
	"context"
	"time"

	"github.com/fencelock/fencelock"
)

// undo removes what an attempt may have left at the server, in the background;
// l.mu is held.
func (l *Locker) undo(r Request) {
	l.start()
	go func() {
		defer l.finish()
		persist(r.TTL, func(ctx context.Context) error { return l.driver.Undo(ctx, r) })
	}()
}

// persist calls f until it succeeds or, since what is left at the server ends
// by itself then, the TTL has passed. It returns f's last error.
func persist(ttl time.Duration, f func(context.Context) error) error {
	const first, longest = 5 * time.Millisecond, time.Second
	all, cancel := context.WithTimeout(context.Background(), max(ttl, time.Second))
	defer cancel()
	for pause := first; ; pause = min(2*pause, longest) {
		ctx, cancel := context.WithTimeout(all, patience(ttl))
		err := f(ctx)
		cancel()
		if err == nil {
			return nil
		}
		if sleep(all, pause, nil); all.Err() != nil {
			return err
		}
	}
}

// patience is how long one release or clean-up call may take.
func patience(ttl time.Duration) time.Duration {
	return min(max(ttl/2, 100*time.Millisecond), 2*time.Second)
}

// closeLine ends everything in a line, and returns what is to be sent when the
// mutex is let go; l.mu is held.
func (l *Locker) closeLine(ln *line) []delivery {
	all := func(*waiter) bool { return true }
	out := ln.refuse(wrap("acquire", ln.name, fencelock.ErrClosed), all)
	l.leave(ln)
	if ln.hold != nil {
		l.lose(ln.hold, fencelock.LostError{Reason: fencelock.Closed})
	}
	return out
}
