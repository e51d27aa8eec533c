package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/fencelock/fencelock"
)

// session is a lease, shared by all attempts with one TTL. One goroutine carries
// it: it gets the lease, renews it while anybody uses it, and revokes it. It is never
// replaced in place: whoever works with a lease that has gone must know.
type session struct {
	d       *driver
	id      int64 // chosen here, so that a lease can be revoked whose grant was not confirmed
	seconds int64 // asked
	ctx     context.Context
	end     context.CancelCauseFunc // of ctx; its users get the cause
	done    chan struct{}           // closed when the lease is revoked or has run out
	wake    chan struct{}           // receives when there may be something to do

	last time.Time // sending of the last request that may have renewed it; carry's own

	// Guarded by driver.mu.
	ttl      time.Duration // granted
	since    time.Time     // sending of the last confirmed request that the TTL counts from; zero: not granted yet
	changed  chan struct{} // closed when since changes
	wanted   time.Time     // somebody waits for a renewal that is sent later than this
	retired  bool          // takes no more attempts and goes with the last that uses it
	users    int
	attempts map[*attempt]bool // of which something may be at the server
	slots    map[slot]bool
}

// patience is how long one call of ours may take: another member may answer when
// this one hangs.
const patience = 2 * time.Second

func patienceOf(ttl time.Duration) time.Duration {
	return min(max(ttl/8, 250*time.Millisecond), patience)
}

// newSession starts a session; d.mu is held.
func (d *driver) newSession(seconds int64) *session {
	s := &session{
		d: d, id: 1 + rand.Int64N(1<<63-1), seconds: seconds,
		done: make(chan struct{}), wake: make(chan struct{}, 1), changed: make(chan struct{}),
		attempts: make(map[*attempt]bool), slots: make(map[slot]bool),
	}
	s.ctx, s.end = context.WithCancelCause(d.ctx)
	d.sessions[seconds] = s
	d.crew.Go(s.carry)
	return s
}

func (s *session) carry() {
	defer close(s.done)
	sent, err := s.grant()
	for err == nil {
		var due time.Duration
		if due, err = s.due(); err == nil && due > 0 {
			s.sleep(due)
		} else if err == nil {
			err = s.renew()
		}
	}
	s.retire()
	s.end(err)
	if sent {
		s.revoke()
	}
	for _, a := range s.list(func(*attempt) bool { return true }) {
		s.d.drop(a)
	}
}

// grant gets the lease. It does not end with the ctx of one of those who wait for
// it. sent says whether there may be a lease.
func (s *session) grant() (sent bool, err error) {
	req := &pb.LeaseGrantRequest{ID: s.id, TTL: s.seconds}
	for {
		ctx, cancel := context.WithTimeout(s.ctx, patience)
		var p peer.Peer
		s.last = time.Now()
		resp, err := s.d.leases.LeaseGrant(ctx, req, grpc.Peer(&p))
		sent = sent || p.Addr != nil
		hung := ctx.Err() != nil
		switch err = rpctypes.Error(err); {
		case err == nil:
			s.confirm(s.last, resp.TTL)
		case errors.Is(err, rpctypes.ErrLeaseExist): // it was granted before, and the answer lost
			err = s.renew()
		case hung && s.used():
			cancel()
			continue // those who wait have a ctx
		case hung:
			err = gone(err) // for whoever comes now
		}
		cancel()
		return sent, err
	}
}

// renew makes one attempt to renew the lease. Its error is final.
func (s *session) renew() error {
	within := patienceOf(s.ttl)
	if s.ttl > 0 {
		within = min(within, time.Until(s.since.Add(s.ttl)))
	}
	if within <= 0 {
		return gone(errors.New("no renewal was confirmed for its TTL"))
	}
	ctx, cancel := context.WithTimeout(s.ctx, within)
	defer cancel()
	s.last = time.Now()
	seconds, err := s.d.keepAlive(ctx, s.id)
	switch {
	case err == nil:
		s.confirm(s.last, seconds)
	case leaseGone(err):
		return gone(err)
	case s.ctx.Err() != nil:
		return context.Cause(s.ctx)
	default: // again until the lease has run out, but not without a pause
		pause(ctx, 50*time.Millisecond)
	}
	return nil
}

// keepAlive renews a lease once and returns its TTL in seconds. The client's own
// KeepAliveOnce repeats, without a pause, what fails for want of a connection.
func (d *driver) keepAlive(ctx context.Context, id int64) (seconds int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := d.leases.LeaseKeepAlive(ctx)
	if err != nil {
		return 0, rpctypes.Error(err)
	}
	_ = stream.Send(&pb.LeaseKeepAliveRequest{ID: id}) // Recv has the reason if it fails
	resp, err := stream.Recv()
	if err != nil {
		return 0, rpctypes.Error(err)
	}
	if resp.TTL <= 0 {
		return 0, rpctypes.ErrLeaseNotFound
	}
	return resp.TTL, nil
}

// confirm notes that the server counts the TTL from a request that was sent then,
// and removes what earlier attempts to remove may have left.
func (s *session) confirm(sent time.Time, seconds int64) {
	s.d.mu.Lock()
	s.since, s.ttl = sent, time.Duration(seconds)*time.Second
	close(s.changed)
	s.changed = make(chan struct{})
	s.d.mu.Unlock()
	for _, a := range s.list(func(a *attempt) bool { return !a.using }) {
		s.d.crew.Go(func() {
			ctx, cancel := context.WithTimeout(s.ctx, patience)
			defer cancel()
			_, _ = s.d.remove(ctx, a)
		})
	}
}

// revoke tries until it is known to be done, or the lease has run out.
func (s *session) revoke() {
	end := s.last.Add(max(s.ttl, time.Duration(s.seconds)*time.Second))
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_, err := s.d.leases.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: s.id})
		cancel()
		if err == nil || leaseGone(rpctypes.Error(err)) || time.Now().After(end) {
			return
		}
		pause(context.Background(), wait)
	}
}

// due says how long nothing is to be done. The error says that the lease is to be
// revoked. Where something is held, the engine asks for a renewal every third of the
// TTL, before this does; this is for those who wait.
func (s *session) due() (time.Duration, error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
		return 0, context.Cause(s.ctx)
	case s.users == 0 && s.retired:
		return 0, gone(errors.New("nobody uses it any more"))
	case s.users == 0:
		return time.Hour, nil
	case !s.since.After(s.wanted):
		return 0, nil
	}
	return time.Until(s.since.Add(s.ttl * 2 / 5)), nil
}

func (s *session) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.wake:
	case <-s.ctx.Done():
	}
}

func (s *session) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// fresh waits until the lease is granted and has been renewed not longer ago than
// age.
func (s *session) fresh(ctx context.Context, age time.Duration) error {
	now := time.Now()
	after := now.Add(-age)
	s.d.mu.Lock()
	// While a machine is suspended its monotonic clock stands still.
	if !s.since.IsZero() && s.d.wall(now).Sub(s.since.Round(0)) > age {
		after = now
	}
	s.d.mu.Unlock()
	return s.renewedAfter(ctx, after)
}

// renewedAfter waits for a renewal that is sent later than this.
func (s *session) renewedAfter(ctx context.Context, after time.Time) error {
	for {
		s.d.mu.Lock()
		done, changed := s.since.After(after) && s.ctx.Err() == nil, s.changed
		if after.After(s.wanted) {
			s.wanted = after
		}
		s.d.mu.Unlock()
		if done {
			return nil
		}
		s.poke()
		select {
		case <-changed:
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// retire lets no further attempt use the lease; it is revoked after the last one.
func (s *session) retire() {
	s.d.mu.Lock()
	s.retireLocked()
	s.d.mu.Unlock()
}

func (s *session) retireLocked() {
	s.retired = true
	if s.d.sessions[s.seconds] == s {
		delete(s.d.sessions, s.seconds)
	}
	s.poke()
}

func (s *session) confirmed() (since time.Time, ttl time.Duration) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	return s.since, s.ttl
}

func (s *session) granted() time.Duration {
	_, ttl := s.confirmed()
	return ttl
}

func (s *session) used() bool {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	return s.users > 0
}

// list returns the attempts that pick picks.
func (s *session) list(pick func(*attempt) bool) (list []*attempt) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	for a := range s.attempts {
		if pick(a) {
			list = append(list, a)
		}
	}
	return list
}

// gone is why a session's users must stop. A fresh attempt may succeed.
func gone(cause error) error {
	return &fencelock.LostError{Reason: fencelock.SessionGone, Cause: fmt.Errorf("etcd: the lease has ended: %w", cause)}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
