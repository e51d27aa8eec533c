package session

import (
	"context"
	"errors"
	"time"
)

// rested is a session that holds nothing.
type rested struct {
	session Session
	since   time.Time
}

// take returns the session that was used last, or a new one.
func (d *Driver) take(ctx context.Context) (s Session, used bool, err error) {
	for {
		d.mu.Lock()
		last := len(d.idle) - 1
		if last < 0 {
			d.mu.Unlock()
			s, err = d.open(ctx)
			return s, false, err
		}
		s := d.idle[last].session
		d.idle = d.idle[:last]
		d.mu.Unlock()
		select {
		case <-s.Broken():
			_ = s.Close(ctx) // nothing is held: it only lets go of memory
		default:
			return s, true, nil
		}
	}
}

// rest takes a session back that holds nothing any more, and closes those that
// have rested so long that the server will soon end them.
func (d *Driver) rest(ctx context.Context, attempt string, s Session) {
	now := time.Now()
	d.mu.Lock()
	delete(d.uses, attempt)
	d.idle = append(d.idle, rested{s, now})
	old := 0
	for now.Sub(d.idle[old].since) > d.ttl/2 {
		old++
	}
	stale := d.idle[:old:old]
	d.idle = d.idle[old:]
	d.mu.Unlock()
	_ = closeAll(ctx, stale) // good-byes: nothing that could fail to be undone
}

func closeAll(ctx context.Context, idle []rested) error {
	var errs []error
	for _, r := range idle {
		errs = append(errs, r.session.Close(ctx))
	}
	return errors.Join(errs...)
}
