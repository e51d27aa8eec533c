package mysql

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/fencelock/fencelock/internal/sqlkit"
)

// Wake implements lease.Waker: it looks whether the lock is free, the more often
// the more recently it has changed hands, so that a busy lock is handed over
// quickly and one that is held for hours costs a few small reads a second.
//
// It also marks that somebody waits. Else the process that has just released
// would nearly always be the first to take the lock again.
func (d *leases) Wake(ctx context.Context, key string) (<-chan struct{}, error) {
	wake := make(chan struct{}, 1)
	d.jobs.Go(func() { d.lookout(ctx, values{key: sqlkit.KeyOf(key), locker: d.id}, wake) })
	return wake, nil
}

func (d *leases) lookout(ctx context.Context, v values, wake chan<- struct{}) {
	changed, token := time.Now(), int64(-1)
	for {
		v.pause = min(max(time.Since(changed)/4, d.poll.min), d.poll.max)
		if !sleep(ctx, v.pause/2+rand.N(v.pause/2+1)) {
			return
		}
		now, taken, marked, err := d.glance(ctx, v)
		switch {
		case err != nil: // the engine's own attempts will meet the error, too
		case now != token:
			changed, token = time.Now(), now
		}
		if !taken {
			select {
			case wake <- struct{}{}:
			default:
			}
		} else if marked < v.pause {
			d.mark(ctx, v)
		}
	}
}

// patience bounds what is not cut short when a wait ends: breaking a statement
// off costs its connection.
const patience = time.Second

func (d *leases) glance(ctx context.Context, v values) (token int64, taken bool, marked time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	var left int64
	err = row(ctx, d.db, d.text(pollSQL, v), &token, &taken, &left)
	return token, taken || err != nil, time.Duration(left) * time.Microsecond, err
}

func (d *leases) mark(ctx context.Context, v values) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	v.pause += 10 * time.Millisecond // the next look comes late on a busy machine
	_, _ = exec(ctx, d.db, d.text(waitSQL, v))
}

// Idle implements lease.Idler.
func (d *leases) Idle(ctx context.Context) error { return d.jobs.Wait(ctx) }

// sleep reports whether d passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
