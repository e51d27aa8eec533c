package pg

import (
	"context"
	"errors"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

// since is when a token was made.
func since(t fencelock.Token) time.Time { return time.UnixMicro(int64(t)) }

// Status implements lease.Inspector.
func (l *leases) Status(ctx context.Context, key string) (fencelock.Status, error) {
	v, err := l.look(ctx, key)
	s := fencelock.Status{Token: fencelock.Token(v.counter), Waiters: -1}
	if v.held() {
		s.Held, s.Token, s.Since, s.For = true, v.first, since(v.first), fromMicros(v.left)
	}
	return s, err
}

// Break implements lease.Inspector: the attempt is given up as one that must not
// come back, and not as one that was released.
func (l *leases) Break(ctx context.Context, key string, first fencelock.Token) error {
	v, err := l.look(ctx, key)
	if err != nil || !v.held() || v.first != first {
		return err
	}
	return l.Undo(ctx, lease.Request{Key: key, Attempt: *v.owner})
}

// Status implements lease.Inspector.
func (s *sessions) Status(ctx context.Context, key string) (fencelock.Status, error) {
	all, err := s.see(ctx, []string{key})
	if err != nil {
		return fencelock.Status{}, err
	}
	one := all[0]
	status := fencelock.Status{Held: one.Held, Token: one.Last, Waiters: one.Waiters}
	if one.Held {
		status.Token, status.Since = one.First, since(one.First)
	}
	return status, nil
}

var errNoSession = errors.New("the lock is held, but not by a session of NewAdvisory or NewRow that this role could see: " +
	"a TxLock, or another client? Find it in pg_locks")

// glances is how often Break looks again at a lock whose holder it cannot find:
// one that has got it a moment ago has no token yet, and shows the former one's.
const glances = 100

// Break implements lease.Inspector: it ends the session, and waits until the
// server has.
func (s *sessions) Break(ctx context.Context, key string, first fencelock.Token) error {
	for found, left := false, glances; ; left-- {
		status, err := s.Status(ctx, key)
		if err != nil || !status.Held || status.Token != first {
			return err
		}
		var n int
		_, err = s.db.row(ctx, s.end, []any{keyArg(key), int64(first)}, &n)
		switch {
		case err != nil:
			return err
		case n == 0 && found:
			return nil
		case n == 0 && left == 0:
			return errNoSession
		}
		found = found || n > 0
		t := time.NewTimer(time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}
