package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/session"
	"github.com/fencelock/fencelock/internal/sqlkit"
)

// NewRow returns a Locker that locks a row of the table fencelock_rows by SELECT
// … FOR UPDATE, in a transaction that stays open as long as the lock is held;
// TxLock respects it. All that NewAdvisory says holds here, too: each hold and
// each waiting process keeps a connection, with the TTL as its wait_timeout. In
// addition each acquisition uses another connection for a moment, to commit its
// token.
func NewRow(db *sql.DB, opts ...fencelock.Option) (*Locker, error) {
	return open("NewRow", db, append(opts[:len(opts):len(opts)], fixTTL), func(s settings) style {
		return newSessions(s, styleOfSessions{
			wrap: func(c *conn) session.Session { return &locked{conn: c} },
			scan: freeRow,
		})
	})
}

const (
	lockSQL = `SELECT 1 FROM $rows WHERE lock_key = $key FOR UPDATE`

	keysSQL = `SELECT LOWER(HEX(lock_key)) FROM $rows WHERE lock_key IN ($keys)`
)

// locked is a session.Session.
type locked struct {
	*conn
	patient bool // innodb_lock_wait_timeout is slice
}

// Lock implements session.Session. The token is committed by another connection,
// as the holder's transaction would undo it. If the session had ended before
// that, a later holder might have got a lower token: it is asked once more
// before the lock is granted.
func (s *locked) Lock(ctx context.Context, r lease.Request, wait bool) (lease.Grant, error) {
	s.soil()
	v := values{key: sqlkit.KeyOf(r.Key), name: r.Key, min: r.Min, n: r.Tokens(), locker: s.id}
	err := s.get(ctx, v, false)
	for wait && errors.Is(err, fencelock.ErrHeld) {
		r.Refused(0)
		err = s.get(ctx, v, true)
	}
	if err != nil {
		if errors.Is(err, fencelock.ErrHeld) {
			s.clean()
		}
		return lease.Grant{}, err
	}
	g, err := s.mintElsewhere(ctx, v)
	if err != nil {
		if lease.IsDefinite(err) {
			err = unfit(err, s.Unlock(ctx, r))
		}
		return g, err
	}
	g.Since = time.Now()
	var one int
	return g, s.row(ctx, "SELECT 1", &one)
}

// mintElsewhere does not wait for a connection for ever: all of the pool's might
// be with others who wait for one.
func (s *locked) mintElsewhere(ctx context.Context, v values) (lease.Grant, error) {
	bounded, cancel := context.WithTimeout(ctx, max(s.ttl, 10*time.Second))
	defer cancel()
	g, err := s.mint(bounded, s.pool, v)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("the pool has no connection to mint the token with: allow more by db.SetMaxOpenConns: %w", err)
	}
	return g, err
}

// get begins a transaction and locks the row, or leaves no transaction.
func (s *locked) get(ctx context.Context, v values, wait bool) error {
	if err := s.wait(ctx, wait); err != nil {
		return err
	}
	for {
		if _, err := s.exec(ctx, "START TRANSACTION"); err != nil {
			return err
		}
		lock := s.text(lockSQL, v)
		if !wait {
			lock += " NOWAIT"
		}
		var one int
		err := s.row(ctx, lock, &one)
		if err == nil {
			return nil
		}
		if _, e := s.exec(ctx, "ROLLBACK"); e != nil {
			return e
		}
		switch n := number(err); {
		case errors.Is(err, sql.ErrNoRows): // the first time, or pruned
			_, err = s.exec(ctx, s.text(rowSQL, v))
			if err != nil && !again(err) {
				return err
			}
		case n == errLockWait, n == errNoWait:
			return &fencelock.HeldError{}
		case again(err), interrupted(err):
		default:
			return err
		}
		if err != nil && !sleep(ctx, time.Millisecond) {
			return ctx.Err()
		}
	}
}

// wait sets how long the next statement may wait for a row: while nobody has to
// be waited for, such as when a row is made, not long.
func (s *locked) wait(ctx context.Context, patient bool) error {
	if s.patient == patient {
		return nil
	}
	most := time.Second
	if patient {
		most = slice
	}
	_, err := s.exec(ctx, fmt.Sprintf("SET SESSION innodb_lock_wait_timeout = %.0f", most.Seconds()))
	if err == nil {
		s.patient = patient
	}
	return err
}

// Unlock implements session.Session.
func (s *locked) Unlock(ctx context.Context, _ lease.Request) error {
	if _, err := s.exec(ctx, "ROLLBACK"); err != nil {
		return vanished(ctx, err)
	}
	s.clean()
	return nil
}

// freeRow asks which rows are there, and which of them can be locked; the locks
// end with the statement.
func freeRow(ctx context.Context, d *sessions, keys []sqlkit.Key) (int, error) {
	v := values{keys: keys}
	there, err := d.column(ctx, d.text(keysSQL, v))
	if err != nil {
		return -1, err
	}
	unlocked, err := d.column(ctx, d.text(unlockedSQL, v))
	return firstWithout(keys, without(there, unlocked)), err
}
