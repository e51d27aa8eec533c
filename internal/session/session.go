// Package session is the lease.Driver of locks that a database server ties to a
// session: a connection that holds the lock as long as it lives. A style of
// locking (PostgreSQL's advisory locks, MySQL's GET_LOCK, locked rows in an open
// transaction) implements [Session]; what is the same for all is here, once:
// which connection serves which attempt, when one may be used again, and how it
// is ended for certain.
//
// A connection carries at most one lock, is never lent to anybody else, and is
// ended after any doubt. The server must end a session that has been silent for
// the TTL, as nobody else could; [Session.Ping] proves that it is not.
package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

// Session is a connection of our own. Its methods are called one at a time,
// except that Close may come at any moment and makes the others return. All
// return at once when ctx ends.
type Session interface {
	// Lock takes the lock and then mints a block of tokens that is committed when
	// Lock returns. It sets First, Last and Since, the sending of the last
	// request from which on the server counts its TTL. If another session has
	// the lock, it returns ErrHeld, or, with wait, tells r.Refused and stays in
	// the server's queue until ctx ends. After ErrHeld or an error marked Definite
	// or Unfit the session is as before; after any other it is of no more use.
	Lock(ctx context.Context, r lease.Request, wait bool) (lease.Grant, error)

	// Ping makes the server count its TTL anew. It fails only if the session is
	// of no more use.
	Ping(ctx context.Context) error

	// Unlock gives the lock up. A *LostError says that this session did not have
	// it any more. After any error the session is of no more use.
	Unlock(ctx context.Context, r lease.Request) error

	// Broken is closed as soon as it is noticed that the connection has ended.
	Broken() <-chan struct{}

	// Close ends the session. It returns nil once the server has certainly let go
	// of its lock and of its place in a queue, which takes another connection to
	// the server; a session that holds nothing just says good-bye. It may be
	// called again.
	Close(ctx context.Context) error
}

// Driver is a lease.Driver and a lease.Queuer and Idler.
type Driver struct {
	open func(ctx context.Context) (Session, error)
	ttl  time.Duration

	mu   sync.Mutex
	idle []rested        // the longest rested first
	uses map[string]*use // by attempt
}

// New returns a driver whose sessions come from open and are ended by the server
// after ttl of silence. What open returns holds nothing; what it does not return
// it closes itself.
func New(ttl time.Duration, open func(ctx context.Context) (Session, error)) *Driver {
	return &Driver{open: open, ttl: ttl, uses: make(map[string]*use)}
}

// Try implements lease.Driver.
func (d *Driver) Try(ctx context.Context, r lease.Request) (lease.Grant, error) {
	return d.lock(ctx, r, false)
}

// Queue implements lease.Queuer.
func (d *Driver) Queue(ctx context.Context, r lease.Request) (lease.Grant, error) {
	return d.lock(ctx, r, true)
}

func (d *Driver) lock(ctx context.Context, r lease.Request, wait bool) (lease.Grant, error) {
	for {
		s, used, err := d.take(ctx)
		if err != nil {
			return lease.Grant{}, lease.Definite(err)
		}
		u := d.begin(r.Attempt, s)
		g, err := s.Lock(ctx, r, wait)
		switch {
		case err == nil:
			g.TTL, g.Done = d.ttl, s.Broken()
			return g, nil
		case lease.IsDefinite(err):
			d.rest(ctx, r.Attempt, s)
			return lease.Grant{}, err
		}
		// The server may have ended an idle session without our noticing it. What
		// else went wrong is for Undo to clean up.
		if !used || ctx.Err() != nil || d.end(ctx, r.Attempt, u, nil) != nil {
			return lease.Grant{}, err
		}
	}
}

// Release implements lease.Driver.
func (d *Driver) Release(ctx context.Context, r lease.Request, _ lease.Grant) error {
	u := d.use(r.Attempt)
	if u == nil {
		return nil // an earlier call has done it
	}
	err := u.unlock(ctx, r)
	if err == nil {
		d.rest(ctx, r.Attempt, u.session)
		return nil
	}
	return d.end(ctx, r.Attempt, u, err)
}

// Undo implements lease.Driver.
func (d *Driver) Undo(ctx context.Context, r lease.Request) error {
	u := d.use(r.Attempt)
	if u == nil {
		return nil
	}
	err := d.end(ctx, r.Attempt, u, nil)
	if errors.Is(err, fencelock.ErrLost) {
		return nil
	}
	return err
}

// Renew implements lease.Driver.
func (d *Driver) Renew(ctx context.Context, rs []lease.Request, gs []lease.Grant, errs []error) {
	pings := make([]*ping, len(rs))
	for i, r := range rs {
		if u := d.use(r.Attempt); u != nil {
			pings[i] = u.beat()
		}
	}
	for i, p := range pings {
		if p == nil { // it is being given up
			errs[i] = errEnded
			continue
		}
		select {
		case <-p.done:
			errs[i] = p.err
		case <-ctx.Done():
			errs[i] = ctx.Err()
		}
		if errs[i] == nil {
			gs[i].Since, gs[i].TTL = p.sent, d.ttl
		}
	}
}

// Idle implements lease.Idler.
func (d *Driver) Idle(ctx context.Context) error {
	d.mu.Lock()
	idle := d.idle
	d.idle = nil
	for attempt, u := range d.uses {
		if u.outlived(d.ttl) { // the server could not be asked, but has ended it
			delete(d.uses, attempt)
		}
	}
	d.mu.Unlock()
	return closeAll(ctx, idle)
}
