package mysql

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/sqlkit"
)

// leases is the lease.Driver of NewLease. Every change is one statement that
// commits by itself: a transaction over several round trips would leave the row
// locked by a process that is stopped in between.
type leases struct {
	tables
	pool
	id   string // of this Locker
	poll struct{ min, max time.Duration }
	jobs sqlkit.Group
}

func newLeases(s settings) style {
	d := &leases{tables: s.tables, pool: s.pool, id: randomID()}
	d.poll.min, d.poll.max = s.BackoffMin, s.BackoffMax
	return d
}

func randomID() string {
	var id [16]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

func (d *leases) request(r lease.Request) values {
	return values{key: sqlkit.KeyOf(r.Key), name: r.Key, attempt: r.Attempt, ttl: r.TTL, min: r.Min, locker: d.id}
}

var errGranted = errors.New("the attempt has the lock already")

// Try implements lease.Driver. The server counts the TTL from the beginning of
// the statement, also if it then waited for the row.
func (d *leases) Try(ctx context.Context, r lease.Request) (lease.Grant, error) {
	v := d.request(r)
	v.n = r.Tokens()
	var mine state
	g, err := d.grant(ctx, d.pool, takeSQL, takeNewSQL, v, func(s state) error {
		switch {
		case s.isDead || s.wasReleased:
			return &fencelock.LostError{Reason: fencelock.Deleted}
		case s.held() && s.owner == r.Attempt:
			mine = s
			return errGranted
		case s.held():
			return &fencelock.HeldError{For: s.left()}
		case s.locker == d.id && s.waiting > s.now:
			return &fencelock.HeldError{For: time.Duration(s.waiting-s.now) * time.Microsecond}
		}
		return nil
	})
	if err == errGranted { // before: of the block the first token is known, and of the TTL a part is gone
		g = lease.Grant{First: mine.first, Last: mine.first, Since: g.Since.Add(mine.left() - r.TTL)}
		err = nil
	}
	if err == errContended {
		err = &fencelock.HeldError{} // by others, one after the other
	}
	g.TTL = r.TTL.Truncate(time.Microsecond)
	return g, definite(ctx, err)
}

// inFlight is how many renewals of one batch are sent at a time. One statement
// for all would be stopped by a single row that is locked.
const inFlight = 16

// Renew implements lease.Driver.
func (d *leases) Renew(ctx context.Context, rs []lease.Request, gs []lease.Grant, errs []error) {
	next := make(chan int)
	var all sync.WaitGroup
	for range min(inFlight, len(rs)) {
		all.Go(func() {
			for i := range next {
				gs[i].Since, errs[i] = d.renew(ctx, rs[i], gs[i].Since)
				gs[i].TTL = rs[i].TTL.Truncate(time.Microsecond)
			}
		})
	}
	for i := range rs {
		next <- i
	}
	close(next)
	all.Wait()
}

func (d *leases) renew(ctx context.Context, r lease.Request, since time.Time) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return since, err
	}
	v, sent := d.request(r), time.Now()
	switch word, err := d.exec(ctx, d.text(renewSQL, v)); {
	case err != nil:
		return since, err
	case word == 0:
		return since, d.lost(ctx, v)
	}
	return sent, nil
}

// lost says how it came that the lock is not the attempt's any more.
func (d *leases) lost(ctx context.Context, v values) error {
	s, err := d.look(ctx, d.pool, v)
	lost := &fencelock.LostError{Reason: fencelock.Deleted, Cause: err}
	switch {
	case err != nil: // that it is lost is certain all the same
	case s.owner == v.attempt:
		lost.Reason = fencelock.Expired
	case s.held():
		lost.Reason = fencelock.Taken
	}
	return lost
}

// Release implements lease.Driver.
func (d *leases) Release(ctx context.Context, r lease.Request, _ lease.Grant) error {
	v := d.request(r)
	word, err := d.exec(ctx, d.text(releaseSQL, v))
	if err != nil || word != 0 {
		return err
	}
	if s, err := d.look(ctx, d.pool, v); err != nil || s.wasReleased {
		return err // nil: an earlier call has done it, its reply was lost
	}
	return d.lost(ctx, v)
}

// Undo implements lease.Driver. When a ctx ends, the connection is closed and
// the server may carry out the statement much later: the tombstone refuses it.
func (d *leases) Undo(ctx context.Context, r lease.Request) error {
	_, err := d.exec(ctx, d.text(undoSQL, d.request(r)))
	return err
}
