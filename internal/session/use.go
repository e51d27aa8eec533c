package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

// use is a session from an attempt's beginning until it has been unlocked, or
// has certainly ended.
type use struct {
	session Session

	mu    sync.Mutex
	over  bool      // no more pings
	ended time.Time // when it was first given up, zero: not yet
	lost  error     // a *LostError: the lock had gone before it was given up
	ping  *ping     // the one on its way
}

// ping outlives the renewal that sent it: to break it off would end the session,
// and with it the lock, although the network may be back in time.
type ping struct {
	sent time.Time
	done chan struct{}
	err  error // valid when done is closed
}

func (d *Driver) begin(attempt string, s Session) *use {
	u := &use{session: s}
	d.mu.Lock()
	d.uses[attempt] = u
	d.mu.Unlock()
	return u
}

func (d *Driver) use(attempt string) *use {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.uses[attempt]
}

// end closes the session for certain. It returns nil, or the loss that cause or
// an earlier cause is, once that is done.
func (d *Driver) end(ctx context.Context, attempt string, u *use, cause error) error {
	u.mu.Lock()
	u.over = true
	if u.ended.IsZero() {
		u.ended = time.Now()
	}
	if u.lost == nil && errors.Is(cause, fencelock.ErrLost) {
		u.lost = cause
	}
	p, lost := u.ping, u.lost
	u.mu.Unlock()
	if err := u.session.Close(ctx); err != nil {
		return err
	}
	if p != nil {
		<-p.done // Close makes it return
	}
	d.mu.Lock()
	delete(d.uses, attempt)
	d.mu.Unlock()
	return lost
}

// unlock waits for a ping on its way, and unlocks.
func (u *use) unlock(ctx context.Context, r lease.Request) error {
	u.mu.Lock()
	if !u.ended.IsZero() {
		defer u.mu.Unlock()
		return errEnded
	}
	u.over = true
	p := u.ping
	u.mu.Unlock()
	if p != nil {
		select {
		case <-p.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return u.session.Unlock(ctx, r)
}

var errEnded = errors.New("the session has been given up")

// beat returns the ping on its way, or sends one.
func (u *use) beat() *ping {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ping != nil || u.over {
		return u.ping
	}
	p := &ping{sent: time.Now(), done: make(chan struct{})}
	u.ping = p
	go func() { // ends with the reply, or by Close
		if err := u.session.Ping(context.Background()); err != nil {
			p.err = &fencelock.LostError{Reason: fencelock.SessionGone, Cause: err}
		}
		u.mu.Lock()
		u.ping = nil
		u.mu.Unlock()
		close(p.done)
	}()
	return p
}

// outlived reports whether the session was given up so long ago that the server
// must have ended it.
func (u *use) outlived(ttl time.Duration) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.ended.IsZero() && time.Since(u.ended) > ttl
}
