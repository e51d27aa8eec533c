package etcd

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const patience = 2 * time.Second // with one call of our own

// session is a lease, shared by all attempts with one TTL.
type session struct {
	seconds int64         // asked
	ready   chan struct{} // closed when it is granted, or has failed
	gone    chan struct{} // closed when it is known to have ended

	// Written before ready is closed.
	id  clientv3.LeaseID
	ttl time.Duration // what the server gave
	err error

	// Guarded by driver.mu.
	since    time.Time // sending of the last confirmed request that renews it
	dead     bool
	flight   *flight // the renewal under way
	attempts map[*attempt]bool
	slots    map[slot]bool
}

type slot struct {
	space string
	n     int
}

type flight struct {
	done chan struct{}
	err  error // written before done is closed
}

func newSession(seconds int64) *session {
	return &session{
		seconds: seconds, ready: make(chan struct{}), gone: make(chan struct{}),
		attempts: make(map[*attempt]bool), slots: make(map[slot]bool),
	}
}

func (s *session) expired(now time.Time) bool {
	return !s.since.IsZero() && now.Sub(s.since) > s.ttl
}

// grant gets the lease. It does not hang on the ctx of one of those who wait.
func (d *driver) grant(s *session) {
	for {
		sent := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		resp, err := d.client.Grant(ctx, s.seconds)
		hung := err != nil && ctx.Err() != nil
		cancel()
		d.mu.Lock()
		if hung && len(s.attempts) > 0 {
			d.mu.Unlock()
			continue // another endpoint may answer; those who wait have a ctx
		}
		if err == nil {
			s.id, s.ttl, s.since = resp.ID, time.Duration(resp.TTL)*time.Second, sent
		} else {
			s.err = err
			d.killLocked(s)
		}
		close(s.ready)
		d.mu.Unlock()
		return
	}
}

// fresh reports whether s needs no renewal for so long after the last one. When
// wall and monotonic time have drifted apart, the machine may have been suspended
// since; that is no proof of anything but a reason to ask.
func (d *driver) fresh(s *session, age time.Duration) bool {
	now := time.Now()
	drift := d.wall(now).Sub(s.since.Round(0)) - now.Sub(s.since)
	return now.Sub(s.since) < age && drift.Abs() <= s.ttl/100+2*time.Millisecond
}

// freshen renews a session that has less than half of its TTL left.
func (d *driver) freshen(ctx context.Context, s *session) error {
	d.mu.Lock()
	fresh := d.fresh(s, s.ttl/2)
	d.mu.Unlock()
	if fresh {
		return nil
	}
	return d.renew(ctx, s)
}

// renew renews s unless that has just been done; callers share one request. The
// error is errSession if the lease is gone.
func (d *driver) renew(ctx context.Context, s *session) error {
	for {
		d.mu.Lock()
		if s.dead || d.fresh(s, s.ttl/6) {
			defer d.mu.Unlock()
			if s.dead {
				return errSession
			}
			return nil
		}
		f := s.flight
		if f == nil {
			f = &flight{done: make(chan struct{})}
			s.flight = f
			d.crew.Go(func() { d.keepAlive(s, f) })
		}
		d.mu.Unlock()
		select {
		case <-f.done:
			if !errors.Is(f.err, context.DeadlineExceeded) {
				return f.err
			}
			// This endpoint hangs, the next one may not.
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (d *driver) keepAlive(s *session, f *flight) {
	ctx, cancel := context.WithTimeout(context.Background(), min(max(s.ttl/8, 250*time.Millisecond), patience))
	defer cancel()
	sent := time.Now()
	err := d.alive(ctx, s.id)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		s.since = sent
	} else if leaseGone(err) {
		d.killLocked(s)
		err = errSession
	}
	f.err = err
	s.flight = nil
	close(f.done)
}

// kill notes that a lease is gone, and with it all its keys.
func (d *driver) kill(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.killLocked(s)
}

func (d *driver) killLocked(s *session) {
	if s.dead {
		return
	}
	s.dead = true
	if d.sessions[s.seconds] == s {
		delete(d.sessions, s.seconds)
	}
	delete(d.old, s)
	close(s.gone)
	for a := range s.attempts {
		a.lose()
	}
}

// retire lets no further attempt use a lease; it is revoked with the end of its
// last one.
func (d *driver) retire(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !s.dead && d.sessions[s.seconds] == s {
		delete(d.sessions, s.seconds)
		d.old[s] = true
		d.sweep(s)
	}
}

// sweep revokes a lease that is retired and unused; d.mu is held.
func (d *driver) sweep(s *session) {
	if d.old[s] && len(s.attempts) == 0 {
		d.crew.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_ = d.revoke(ctx, s) // else Idle does it
		})
	}
}

func (d *driver) revoke(ctx context.Context, s *session) error {
	_, err := d.client.Revoke(ctx, s.id)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil || leaseGone(err) || s.expired(time.Now()) {
		d.killLocked(s)
		return nil
	}
	return err
}

// Idle implements lease.Idler: it revokes the leases that nobody uses.
func (d *driver) Idle(ctx context.Context) error {
	d.mu.Lock()
	var unused []*session
	busy := false
	for _, s := range d.sessions {
		if len(s.attempts) == 0 {
			delete(d.sessions, s.seconds)
			d.old[s] = true
		} else if s.expired(time.Now()) {
			d.killLocked(s)
		} else {
			busy = true
		}
	}
	for s := range d.old {
		if len(s.attempts) == 0 {
			unused = append(unused, s)
		} else if s.expired(time.Now()) {
			d.killLocked(s)
		} else {
			busy = true
		}
	}
	d.mu.Unlock()
	var errs []error
	for _, s := range unused {
		select {
		case <-s.ready:
		case <-ctx.Done():
			return ctx.Err()
		}
		if s.err == nil {
			errs = append(errs, d.revoke(ctx, s))
		}
	}
	if busy {
		errs = append(errs, errors.New("etcd: an attempt is still under way"))
	}
	return errors.Join(errs...)
}
