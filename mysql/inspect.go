package mysql

import (
	"context"
	"errors"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/sqlkit"
)

// status is what a state says, if the lock is held or not.
func (s state) status(held bool) fencelock.Status {
	if !held {
		return fencelock.Status{Token: fencelock.Token(s.token), Waiters: -1}
	}
	return fencelock.Status{
		Held: true, Token: s.first, Since: time.UnixMicro(int64(s.first)), For: max(0, s.left()), Waiters: -1,
	}
}

// Status implements lease.Inspector.
func (d *leases) Status(ctx context.Context, key string) (fencelock.Status, error) {
	s, err := d.look(ctx, d.pool, values{key: sqlkit.KeyOf(key)})
	return s.status(s.held()), err
}

// Break implements lease.Inspector: the attempt is given up as one that must not
// come back, and not as one that was released.
func (d *leases) Break(ctx context.Context, key string, first fencelock.Token) error {
	s, err := d.look(ctx, d.pool, values{key: sqlkit.KeyOf(key)})
	if err != nil || !s.held() || s.first != first {
		return err
	}
	return d.Undo(ctx, lease.Request{Key: key, Attempt: s.owner})
}

// Status implements lease.Inspector.
func (d *sessions) Status(ctx context.Context, key string) (fencelock.Status, error) {
	_, status, err := d.see(ctx, key)
	return status, err
}

// see also returns who has minted the last token: whoever holds the lock, if it is
// a session of ours.
func (d *sessions) see(ctx context.Context, key string) (who string, _ fencelock.Status, err error) {
	id := sqlkit.KeyOf(key)
	s, err := d.look(ctx, d.pool, values{key: id})
	if err != nil {
		return "", fencelock.Status{}, err
	}
	free, err := d.free(ctx, []sqlkit.Key{id})
	return s.locker, s.status(free < 0), err
}

var errNoSession = errors.New("the lock is held, but not by a session of NewAdvisory or NewRow: a TxLock, or another client? " +
	"Find it in SHOW PROCESSLIST")

// glances is how often Break looks again at a lock whose holder it cannot find:
// one that has got it a moment ago has no token yet, and shows the former one's.
const glances = 100

// Break implements lease.Inspector: it ends the session that has got the token.
func (d *sessions) Break(ctx context.Context, key string, first fencelock.Token) error {
	for range glances {
		who, status, err := d.see(ctx, key)
		if err != nil || !status.Held || status.Token != first {
			return err
		}
		if found, err := d.kill(ctx, markerOf(who)); err != nil || found {
			return err
		}
		if !sleep(ctx, time.Millisecond) {
			return ctx.Err()
		}
	}
	return errNoSession
}
