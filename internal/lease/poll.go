package lease

import (
	"context"
	"math/rand/v2"
	"time"
)

// poller paces the attempts of a line that is refused: exponential pauses with
// full jitter, cut short by a wake-up where the driver can give one.
type poller struct {
	l      *Locker
	ln     *line
	top    time.Duration // the longest the next pause may be
	wake   <-chan struct{}
	cancel context.CancelFunc // of the wake-up's subscription
}

// pause waits until the next attempt is due or ctx ends.
func (p *poller) pause(ctx context.Context, w *waiter, rest time.Duration, refused bool) {
	if rest > 0 {
		sleep(ctx, rest, nil)
	}
	if !refused {
		return
	}
	if p.l.waker != nil && p.wake == nil && p.subscribe(ctx) {
		return // subscribed, then try again: a message sent in between is not missed
	}
	if p.top == 0 {
		p.top = w.set.BackoffMin
	}
	d := rand.N(p.top) + 1
	p.top = min(2*p.top, w.set.BackoffMax)
	p.l.mu.Lock()
	if left := time.Until(p.ln.until); left > 0 {
		d = min(d, left+time.Millisecond) // no later than the holder's time ends
	}
	p.l.mu.Unlock()
	if woken, closed := sleep(ctx, d, p.wake); closed {
		p.stop()
	} else if woken {
		p.top = w.set.BackoffMin
	}
}

func (p *poller) subscribe(ctx context.Context) bool {
	ctx, p.cancel = context.WithCancel(ctx)
	wake, err := p.l.waker.Wake(ctx, p.ln.key)
	if err != nil {
		p.stop() // polling is the floor
		return false
	}
	p.wake = wake
	return true
}

func (p *poller) stop() {
	if p.cancel != nil {
		p.cancel()
	}
	p.wake, p.cancel = nil, nil
}

// sleep waits for d, for ctx or for wake.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) (woken, closed bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case _, ok := <-wake:
		return ok, !ok
	}
	return false, false
}
