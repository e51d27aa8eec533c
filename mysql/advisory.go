package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/session"
	"github.com/fencelock/fencelock/internal/sqlkit"
)

// NewAdvisory returns a Locker that locks by GET_LOCK. Each hold, and each
// process that waits for a name, keeps a connection of db for itself, with
// wait_timeout set to the TTL, so db and the server must be allowed as many. They
// are used again for a while, then closed. MaxOpenConns of db is read here, once:
// one connection is kept free for what is done beside the sessions. The name at
// the server is the SHA-256 of prefix and name in lower hex.
//
// Waiting processes queue at the server. A holder that dies is followed at once
// if the machine or the network can still tell the server, else after the TTL,
// which is given here, in whole seconds rounded up, and not in a call. It needs a
// server without a proxy that shares connections, and no Galera cluster.
func NewAdvisory(db *sql.DB, opts ...fencelock.Option) (*Locker, error) {
	return open("NewAdvisory", db, append(opts[:len(opts):len(opts)], fixTTL), func(s settings) style {
		return newSessions(s, styleOfSessions{
			wrap: func(c *conn) session.Session { return advisory{c} },
			scan: freeAdvisory,
		})
	})
}

// advisory is a session.Session.
type advisory struct{ *conn }

// Lock implements session.Session. The token is minted on the same connection,
// so that a session that has ended mints none.
func (s advisory) Lock(ctx context.Context, r lease.Request, wait bool) (lease.Grant, error) {
	s.soil()
	key := sqlkit.KeyOf(r.Key)
	err := s.get(ctx, key, 0)
	for wait && errors.Is(err, fencelock.ErrHeld) {
		r.Refused(0)
		err = s.get(ctx, key, slice)
	}
	if err != nil {
		if errors.Is(err, fencelock.ErrHeld) {
			s.clean()
		}
		return lease.Grant{}, err
	}
	g, err := s.mint(ctx, retrying(s), values{key: key, name: r.Key, min: r.Min, n: r.Tokens(), locker: s.id})
	if err != nil && lease.IsDefinite(err) {
		err = unfit(err, s.Unlock(ctx, r))
	}
	return g, err
}

// get asks for the lock, and again when there is no answer.
func (s advisory) get(ctx context.Context, key sqlkit.Key, wait time.Duration) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		var got sql.NullInt64
		err := s.row(ctx, fmt.Sprintf("SELECT GET_LOCK('%s', %.0f)", key.Hex(), wait.Seconds()), &got)
		if err == nil {
			err = granted(got)
		}
		if err != errNoAnswer && !interrupted(err) && !again(err) {
			return err
		}
		if !sleep(ctx, pause) {
			return errors.Join(err, ctx.Err())
		}
	}
}

var errNoAnswer = errors.New("GET_LOCK neither gives nor refuses the lock")

// granted says what GET_LOCK means: NULL or -1, as after KILL QUERY, is no
// answer.
func granted(got sql.NullInt64) error {
	switch {
	case got.Valid && got.Int64 == 1:
		return nil
	case got.Valid && got.Int64 == 0:
		return &fencelock.HeldError{}
	}
	return errNoAnswer
}

// Unlock implements session.Session.
func (s advisory) Unlock(ctx context.Context, r lease.Request) error {
	var released sql.NullInt64
	err := s.row(ctx, "SELECT RELEASE_LOCK('"+sqlkit.KeyOf(r.Key).Hex()+"')", &released)
	switch {
	case err != nil:
		return vanished(ctx, err)
	case released.Int64 != 1:
		return &fencelock.LostError{Reason: fencelock.Deleted}
	}
	s.clean()
	return nil
}

// freeAdvisory asks for a hundred names at a time.
func freeAdvisory(ctx context.Context, d *sessions, keys []sqlkit.Key) (int, error) {
	for at := 0; at < len(keys); at += 100 {
		part := keys[at:min(at+100, len(keys))]
		var ask []string
		for i, k := range part {
			ask = append(ask, fmt.Sprintf("WHEN IS_FREE_LOCK('%s') THEN %d", k.Hex(), i))
		}
		var free int
		if err := d.pool.row(ctx, "SELECT CASE "+strings.Join(ask, " ")+" ELSE -1 END", &free); err != nil || free >= 0 {
			return at + free, err
		}
	}
	return -1, nil
}
