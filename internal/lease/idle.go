package lease

import (
	"context"
	"time"
)

// idleness stops what a driver keeps for holders and waiters, once there have
// been none for a third of the TTL. It costs one timer for a busy period, not one
// for a release. Guarded by Locker.mu.
type idleness struct {
	driver Idler // nil: keeps nothing
	since  time.Time
	armed  bool
}

// quiet is called when the last line has gone; l.mu is held.
func (l *Locker) quiet() {
	if l.idle.driver == nil || len(l.lines) > 0 || l.closed {
		return
	}
	l.idle.since = time.Now()
	if !l.idle.armed {
		l.idle.armed = true
		time.AfterFunc(l.def.TTL/3, l.checkIdle)
	}
}

func (l *Locker) checkIdle() {
	l.mu.Lock()
	if l.closed || len(l.lines) > 0 {
		l.idle.armed = false // the next quiet arms it again
		l.mu.Unlock()
		return
	}
	if left := l.def.TTL/3 - time.Since(l.idle.since); left > 0 {
		time.AfterFunc(left, l.checkIdle)
		l.mu.Unlock()
		return
	}
	l.idle.armed = false
	l.start()
	l.mu.Unlock()
	defer l.finish()
	ctx, cancel := context.WithTimeout(context.Background(), patience(l.def.TTL))
	defer cancel()
	if err := l.idle.driver.Idle(ctx); err != nil {
		l.mu.Lock()
		l.quiet() // again later
		l.mu.Unlock()
	}
}

func (i *idleness) stop(ctx context.Context) error {
	if i.driver == nil {
		return nil
	}
	return i.driver.Idle(ctx)
}
