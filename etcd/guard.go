package etcd

import (
	"context"
	"time"
)

const (
	// guardAfter is how long a key lives before it is watched: most are gone by
	// then and cost nothing.
	guardAfter = 250 * time.Millisecond

	// maxGuards bounds the watches of a Locker, each of which costs three
	// goroutines. The keys of further holds are looked at when they are renewed.
	maxGuards = 64
)

// guard has the attempt told, by its channel gone, when its key has been deleted
// by anybody else.
func (d *driver) guard(a *attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a.over || a.s.dead || d.guards == maxGuards {
		return
	}
	d.guards++
	a.guarded, a.gone = true, make(chan struct{})
	a.timer = time.AfterFunc(guardAfter, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !a.guarded {
			return
		}
		var ctx context.Context
		ctx, a.stop = context.WithCancel(context.Background())
		d.crew.Go(func() { d.watchOver(ctx, a) })
	})
}

// unguard is guard's opposite.
func (d *driver) unguard(a *attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unguardLocked(a)
}

func (d *driver) unguardLocked(a *attempt) {
	if !a.guarded {
		return
	}
	d.guards--
	a.guarded = false
	a.timer.Stop()
	if a.stop != nil {
		a.stop()
	}
}

// lose tells the attempt that its key is gone; driver.mu is held.
func (a *attempt) lose() {
	if a.guarded && !a.lost {
		a.lost = true
		close(a.gone)
	}
}

// watchOver returns when ctx ends or the key is gone.
func (d *driver) watchOver(ctx context.Context, a *attempt) {
	for ctx.Err() == nil {
		w, err := d.watch(ctx, a.key)
		if err == nil {
			if _, err = d.look(ctx, a); err == nil {
				select { // what has changed is seen by the next look
				case <-w.events:
				case <-ctx.Done():
				}
			}
			w.stop()
		}
		switch {
		case isLost(err):
			d.mu.Lock()
			a.lose()
			d.mu.Unlock()
			return
		case err != nil:
			sleep(ctx, guardAfter)
		}
	}
}

func sleep(ctx context.Context, t time.Duration) {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
