package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/option"
	"github.com/fencelock/fencelock/internal/session"
	"github.com/fencelock/fencelock/internal/sqlkit"
)

// kind is how a session locks. All its methods run statements on the session's
// connection, one after the other.
type kind interface {
	// try takes the lock if it is free. If not, nothing is left.
	try(ctx context.Context, c *pgx.Conn, key string) (bool, error)
	// wait takes the lock when it is free, or fails with the server's time-out. It
	// may return false to be called again.
	wait(ctx context.Context, c *pgx.Conn, key string) (bool, error)
	// mint returns a committed block of tokens that nobody who gets the lock later
	// can be below of, and the sending of the last request.
	mint(ctx context.Context, c *pgx.Conn, r lease.Request) (minted, time.Time, error)
	// clear gives up whatever the session has.
	clear(ctx context.Context, c *pgx.Conn) error
	// unlock gives the lock up, and reports false if the session did not have it.
	unlock(ctx context.Context, c *pgx.Conn, key string) (bool, error)
	// alive makes the server count its time-out anew.
	alive(ctx context.Context, c *pgx.Conn) error
}

// held is a session.Session.
type held struct {
	*conn
	kind kind
}

// sessions is the style whose locks are held by sessions.
type sessions struct {
	*session.Driver
	db   *database
	look string // the statement that shows who has a lock
	end  string // the statement that ends who has it
}

func newSessions(what string, pool *pgxpool.Pool, opts []fencelock.Option, of func(*database) kind) (*Locker, error) {
	return newLocker("New"+what, pool, opts, func(d *database, set *option.Set) (style, error) {
		set.Fix(option.TTL)
		ttl, kind, files := set.TTL, of(d), strings.ToLower(what)
		return &sessions{session.New(ttl, func(ctx context.Context) (session.Session, error) {
			c, err := d.connect(ctx, what, ttl)
			if err != nil {
				return nil, err
			}
			return &held{c, kind}, nil
		}), d, d.t.sql(files + "_look.sql"), d.t.sql(files + "_break.sql")}, nil
	})
}

// Lock implements session.Session.
func (h *held) Lock(ctx context.Context, r lease.Request, wait bool) (g lease.Grant, err error) {
	err = h.do(ctx, func(ctx context.Context) error {
		h.doubt = true
		m, since, err := h.lock(ctx, r, wait)
		if err == nil {
			g = lease.Grant{First: m.first, Last: m.last, Since: since}
			return nil
		}
		if errors.Is(err, fencelock.ErrHeld) {
			h.doubt = false
			return err
		}
		// It may have failed after the lock was taken.
		if uncleared := h.kind.clear(ctx, h.c); uncleared != nil {
			return fmt.Errorf("%v; then: %w", err, uncleared) // unmarked
		}
		h.doubt = false
		if !lease.IsDefinite(err) {
			err = lease.Definite(err)
		}
		return err
	})
	return g, err
}

func (h *held) lock(ctx context.Context, r lease.Request, wait bool) (m minted, since time.Time, err error) {
	got, err := h.kind.try(ctx, h.c, r.Key)
	for err == nil && !got {
		if !wait {
			return m, since, &fencelock.HeldError{}
		}
		r.Refused(0)
		got, err = h.kind.wait(ctx, h.c, r.Key)
		if timedOut(err) || isAgain(err) {
			// A time-out may come at the moment of the grant, and be reported nevertheless.
			err = h.kind.clear(ctx, h.c)
		}
	}
	if err != nil {
		return m, since, explain(err)
	}
	return h.kind.mint(ctx, h.c, r)
}

// timedOut reports whether the server has ended a statement that waited, be it
// by the session's time-out or by an operator.
func timedOut(err error) bool {
	c := code(err)
	return c == lockNotAvailable || c == queryCanceled
}

const (
	lockNotAvailable = "55P03"
	queryCanceled    = "57014"
)

// Ping implements session.Session.
func (h *held) Ping(ctx context.Context) error {
	return h.do(ctx, func(ctx context.Context) error { return h.kind.alive(ctx, h.c) })
}

// Unlock implements session.Session.
func (h *held) Unlock(ctx context.Context, r lease.Request) error {
	return h.do(ctx, func(ctx context.Context) error {
		was, err := h.kind.unlock(ctx, h.c, r.Key)
		switch {
		case err == nil && was:
			h.doubt = false
			return nil
		case err == nil, ctx.Err() == nil && h.c.IsClosed():
			return &fencelock.LostError{Reason: fencelock.SessionGone, Cause: err}
		}
		return err
	})
}

// seen is what the server shows of a lock.
type seen struct {
	Held        bool
	Waiters     int
	First, Last fencelock.Token // of the name's last block
}

func (s *sessions) see(ctx context.Context, keys []string) (all []seen, err error) {
	ids := make([][]byte, len(keys))
	for i, key := range keys {
		id := sqlkit.KeyOf(key)
		ids[i] = id[:]
	}
	err = s.db.with(ctx, func(c *pgx.Conn, mode []any) error {
		rows, err := c.Query(ctx, s.look, append(mode, ids)...)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[seen])
		if err == nil && len(all) != len(keys) {
			err = fmt.Errorf("%d answers for %d names", len(all), len(keys))
		}
		return err
	})
	return all, err
}

// free implements style.
func (s *sessions) free(ctx context.Context, keys []string) (int, error) {
	all, err := s.see(ctx, keys)
	for i, one := range all {
		if err == nil && !one.Held {
			return i, nil
		}
	}
	return -1, err
}
