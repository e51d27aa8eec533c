package mem

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/internal/lease"
)

// driver is lease.Driver and lease.Queuer.
type driver struct {
	server *Server
	link   *Link
}

var _ interface {
	lease.Driver
	lease.Queuer
} = (*driver)(nil)

func (d *driver) Try(ctx context.Context, r lease.Request) (lease.Grant, error) {
	sent := time.Now()
	return call(ctx, d.link, d.server, func(now time.Time) (lease.Grant, error) {
		return d.server.entry(r.Key, now).acquire(r, sent, now)
	})
}

// Queue polls while it waits, so that the server can tell a waiter that is
// there from one that has died. The hold counts from the last poll that reached
// the server before the grant, since the grant may be read late.
func (d *driver) Queue(ctx context.Context, r lease.Request) (lease.Grant, error) {
	type answer struct {
		lease.Grant
		err error
	}
	answers := make(chan answer, 1)
	reply := func(g lease.Grant, err error) {
		d.link.reply(func() {
			select {
			case answers <- answer{g, err}:
			default: // the first ends the wait
			}
		})
	}
	tick := time.NewTicker(r.TTL / 3)
	defer tick.Stop()
	for {
		cut, err := d.link.dial()
		if err != nil {
			return lease.Grant{}, err
		}
		d.poll(r, reply)
		select {
		case a := <-answers:
			return a.Grant, a.err
		case <-cut:
			return lease.Grant{}, errCut
		case <-ctx.Done():
			return lease.Grant{}, ctx.Err()
		case <-tick.C:
		}
	}
}

func (d *driver) poll(r lease.Request, reply func(lease.Grant, error)) {
	sent := time.Now()
	d.link.request(func() {
		d.server.handle(func(err error) { reply(lease.Grant{}, err) }, func(now time.Time) {
			w := &waiter{Request: r, sent: sent, seen: time.Now(), reply: reply}
			g, left, err := d.server.wait(w, now)
			d.server.send(func() {
				if left > 0 {
					d.link.reply(func() { r.Refused(left) })
				} else {
					reply(g, err)
				}
			})
		})
	})
}

func (d *driver) Renew(ctx context.Context, rs []lease.Request, gs []lease.Grant, errs []error) {
	sent := time.Now()
	results, err := call(ctx, d.link, d.server, func(now time.Time) ([]error, error) {
		results := make([]error, len(rs))
		for i, r := range rs {
			results[i] = d.server.entry(r.Key, now).renew(r, now)
		}
		return results, nil
	})
	for i := range rs {
		switch {
		case err != nil:
			errs[i] = err
		case results[i] != nil:
			errs[i] = results[i]
		default:
			gs[i].Since, gs[i].TTL = sent, rs[i].TTL
		}
	}
}

func (d *driver) Release(ctx context.Context, r lease.Request, _ lease.Grant) error {
	_, err := call(ctx, d.link, d.server, func(now time.Time) (struct{}, error) {
		return struct{}{}, d.server.end(r, now)
	})
	return err
}

// Undo may overtake its attempt: the grave that it leaves refuses the attempt.
func (d *driver) Undo(ctx context.Context, r lease.Request) error {
	_, err := call(ctx, d.link, d.server, func(now time.Time) (struct{}, error) {
		_ = d.server.end(r, now) // it need not have held the lock
		return struct{}{}, nil
	})
	return err
}
