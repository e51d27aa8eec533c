package mem

import (
	"context"
	"time"

	"github.com/fencelock/fencelock"
)

// Status implements lease.Inspector.
func (d *driver) Status(ctx context.Context, key string) (fencelock.Status, error) {
	return call(ctx, d.link, d.server, func(now time.Time) (fencelock.Status, error) {
		return d.server.status(key, now), nil
	})
}

// Break implements lease.Inspector.
func (d *driver) Break(ctx context.Context, key string, first fencelock.Token) error {
	_, err := call(ctx, d.link, d.server, func(now time.Time) (struct{}, error) {
		d.server.breakHold(key, first, now)
		return struct{}{}, nil
	})
	return err
}

func (s *Server) status(key string, now time.Time) fencelock.Status {
	e := s.entry(key, now)
	st := fencelock.Status{Token: e.counter, Waiters: len(e.queue)}
	if e.owner != "" {
		st.Held, st.Token, st.Since, st.For = true, e.first, time.UnixMicro(int64(e.first)), e.ends.Sub(now)
	}
	return st
}

func (s *Server) breakHold(key string, first fencelock.Token, now time.Time) {
	e := s.entry(key, now)
	if e.owner == "" || e.first != first {
		return
	}
	e.bury(e.owner, false)
	e.owner = ""
	s.settle(key, e, now)
}
