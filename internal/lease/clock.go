package lease

import (
	"context"
	"time"
)

// instant is one moment on the monotonic and on the wall clock. While a virtual
// machine is suspended the monotonic clock stands still, so a deadline that
// looks far away may have passed. Wall and monotonic time that have drifted apart
// give it away. The wall clock may also just have been set, so this is a reason
// to ask the server, never to conclude a loss.
type instant struct{ mono, wall time.Time }

func (l *Locker) instant() instant {
	now := time.Now()
	return instant{now, l.wall(now)}
}

// drifted reports whether the clocks have drifted apart from t to now by more
// than the margin of ttl.
func (l *Locker) drifted(t instant, now time.Time, ttl time.Duration) bool {
	d := l.wall(now).Sub(t.wall) - now.Sub(t.mono)
	return d.Abs() > margin(ttl)
}

// reconfirm renews a grant before it is handed out if the machine may have been
// suspended since the attempt began.
func (l *Locker) reconfirm(ctx context.Context, a attempt, g Grant) (Grant, error) {
	if !l.drifted(a.began, time.Now(), g.TTL) {
		return g, nil
	}
	gs, errs := []Grant{g}, make([]error, 1)
	l.driver.Renew(ctx, []Request{a.r}, gs, errs)
	return gs[0], errs[0]
}
