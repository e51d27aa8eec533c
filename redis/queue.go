package redis

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

// maxPoll bounds what a lost message costs.
const maxPoll = time.Second

// wait is one attempt in the server's queue. Guarded by driver.mu.
type wait struct {
	news   chan struct{} // capacity 1
	number int           // of the registration that was granted, 0 if none
	first  fencelock.Token
	last   fencelock.Token
}

// Queue implements lease.Queuer. The first attempt registers in the queue at
// once if the Locker already listens; else it subscribes after a refusal, and
// then tries again, so that no message is missed.
//
// The lock may be granted at any time after the server has answered a poll, and
// the message may be read late; so the grant's validity counts from
// the sending of the last poll, and the polls go on.
func (d *driver) Queue(ctx context.Context, r lease.Request) (lease.Grant, error) {
	w := &wait{news: make(chan struct{}, 1)}
	for listening := d.join(r.Attempt, w); !listening; listening = d.join(r.Attempt, w) {
		a, err := d.acquire(ctx, r, "", 0)
		if err != nil || a.granted {
			return a.grant, a.mark(err)
		}
		r.Refused(a.left)
		switch err := d.listen(ctx); {
		case err == nil:
		case ctx.Err() != nil:
			return lease.Grant{}, lease.Definite(ctx.Err())
		default:
			return lease.Grant{}, a.held() // as without pub/sub: the engine polls
		}
	}
	defer d.leave(r.Attempt)
	for number := 1; ; number++ {
		sent := time.Now()
		a, err := d.acquire(ctx, r, d.how, number)
		switch {
		case err != nil && number == 1:
			return a.grant, a.mark(err)
		case err != nil || a.granted:
			return a.grant, err
		case a.foreign:
			return lease.Grant{}, a.held()
		}
		r.Refused(a.left)
		g, ok, err := d.hearken(ctx, w, a, min(maxPoll, r.TTL/3))
		if err != nil {
			return lease.Grant{}, err
		}
		if !ok {
			continue
		}
		g.Since, g.TTL = sent, r.TTL.Truncate(time.Millisecond)
		err = d.confirm(ctx, r, &g)
		if !errors.Is(err, fencelock.ErrLost) {
			return g, err
		}
	}
}

// hearken waits for a grant. It reports false when it is time to poll.
func (d *driver) hearken(ctx context.Context, w *wait, a answer, poll time.Duration) (lease.Grant, bool, error) {
	if a.left > 0 {
		poll = min(poll, a.left+time.Millisecond)
	}
	timer := time.NewTimer(poll)
	defer timer.Stop()
	select {
	case <-w.news:
	case <-timer.C:
		return lease.Grant{}, false, nil
	case <-ctx.Done():
		return lease.Grant{}, false, ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	// A message from before the last poll is of a grant that has run out since:
	// else the poll would have found it. A stopped process gets such ones.
	if w.number != a.queued {
		return lease.Grant{}, false, nil
	}
	return lease.Grant{First: w.first, Last: w.last}, true, nil
}

// confirm renews a grant at once that was heard of late.
func (d *driver) confirm(ctx context.Context, r lease.Request, g *lease.Grant) error {
	if time.Since(g.Since) < g.TTL/2 && d.replicas.n == 0 {
		return nil
	}
	res, err := d.run(ctx, renewScript, renewal(r).Keys, renewal(r).Args...)
	if err != nil {
		return err
	}
	return renewed(res, g, r)
}

// join enters w into the table of those whom messages are for. It reports false
// if the Locker does not listen.
func (d *driver) join(attempt string, w *wait) bool {
	if d.node.Sharded() {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stop == nil {
		return false
	}
	d.waits[attempt] = w
	return true
}

func (d *driver) leave(attempt string) {
	d.mu.Lock()
	delete(d.waits, attempt)
	d.mu.Unlock()
}

// listen subscribes to the Locker's channel, for all its waits together.
func (d *driver) listen(ctx context.Context) error {
	if d.node.Sharded() {
		return errors.New("redis: a Ring has no pub/sub across its shards")
	}
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	d.mu.Lock()
	listening := d.stop != nil
	d.mu.Unlock()
	if listening {
		return nil
	}
	stop, err := d.node.Subscribe(ctx, "fencelock/"+d.id, d.hear)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.stop = stop
	d.mu.Unlock()
	return nil
}

// hear takes in a message: "attempt" wakes, "attempt number first last" grants.
// One for nobody is of an attempt that was given up; its Undo gives it back.
func (d *driver) hear(message string, gap bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if gap {
		for _, w := range d.waits {
			w.wake()
		}
		return
	}
	f := strings.Split(message, " ")
	w := d.waits[f[0]]
	if w == nil {
		return
	}
	if len(f) == 4 {
		w.number, _ = strconv.Atoi(f[1])
		w.first, w.last = token(f[2]), token(f[3])
	}
	w.wake()
}

func (w *wait) wake() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// Idle implements lease.Idler.
func (d *driver) Idle(ctx context.Context) error {
	d.mu.Lock()
	if len(d.waits) > 0 {
		d.mu.Unlock()
		return errors.New("redis: somebody has begun to wait")
	}
	stop := d.stop
	d.stop = nil
	d.mu.Unlock()
	if stop != nil {
		stop()
	}
	return d.node.Idle(ctx)
}
