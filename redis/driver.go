package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/redisnode"
)

// driver implements lease.Driver, lease.Queuer (queue.go) and lease.Idler.
type driver struct {
	node     *redisnode.Node
	replicas replicas
	warn     func(ctx context.Context, name string, err error) // nil: nobody observes
	check    sync.Once                                         // of the server's policy

	id    string        // of this Locker: its channel
	how   string        // to wait with, see grant.lua
	turn  chan struct{} // capacity 1: held while subscribing
	mu    sync.Mutex
	stop  func() // ends the subscription; nil if not subscribed
	waits map[string]*wait
	late  map[string]<-chan struct{} // attempts whose caller left before the reply, until it has come
}

func newDriver(node *redisnode.Node) *driver {
	var id [16]byte
	rand.Read(id[:])
	d := &driver{
		node:  node,
		id:    hex.EncodeToString(id[:]),
		turn:  make(chan struct{}, 1),
		waits: make(map[string]*wait),
		late:  make(map[string]<-chan struct{}),
	}
	d.how = "g" + d.id
	if node.Cluster() {
		// PUBLISH counts the receivers at one node only, so nobody can be known
		// to hear of a grant.
		d.how = "w" + d.id
	}
	return d
}

// Try implements lease.Driver.
func (d *driver) Try(ctx context.Context, r lease.Request) (lease.Grant, error) {
	a, err := d.acquire(ctx, r, "", 0)
	if err == nil && !a.granted {
		err = a.held()
	}
	return a.grant, a.mark(err)
}

// answer is what acquire.lua says.
type answer struct {
	granted bool
	grant   lease.Grant
	left    time.Duration // of the present holder
	queued  int           // number of the registration, 0 if not in the queue
	foreign bool          // the holder is a plain SET NX client
	clean   bool          // with an error: this request has left nothing at the server
}

// mark marks the error of an attempt of which nothing else has been sent.
func (a answer) mark(err error) error {
	if err != nil && a.clean {
		return lease.Definite(err)
	}
	return err
}

func (a answer) held() error { return &fencelock.HeldError{For: a.left} }

// acquire runs acquire.lua. An answer that is no grant is a refusal; everything
// else is an error.
func (d *driver) acquire(ctx context.Context, r lease.Request, how string, number int) (answer, error) {
	if redisnode.IsSibling(r.Key, reserved) {
		return answer{}, lease.Unfit(fmt.Errorf("redis: the key %q is reserved: it could be the companion of another lock", r.Key))
	}
	ttl := r.TTL.Truncate(time.Millisecond)
	res, err := d.run(ctx, acquireScript, []string{r.Key, companion(r.Key)},
		r.Attempt, strconv.FormatInt(ttl.Milliseconds(), 10), strconv.Itoa(max(1, r.Tokens())), r.Min.String(),
		how, strconv.Itoa(number))
	d.settleLater(r.Attempt, res.Pending)
	if err != nil {
		// A script that fails has not come to its last step, the lock key.
		return answer{clean: res.Unsent() || res.Rejected()}, err
	}
	reply, err := res.Strings()
	if err != nil {
		return answer{}, err
	}
	switch kind := reply[0]; kind {
	case "granted":
		// Of a replayed attempt, part of the TTL is gone.
		since := res.Sent.Add(millis(reply[3]) - ttl)
		d.checkPolicy(ctx)
		return answer{granted: true, grant: lease.Grant{First: token(reply[1]), Last: token(reply[2]), Since: since, TTL: ttl}}, nil
	case "held", "queued", "foreign":
		a := answer{left: millis(reply[1]), foreign: kind == "foreign"}
		if kind == "queued" {
			a.queued, _ = strconv.Atoi(reply[2])
		}
		return a, nil
	case "dead":
		// We never send an attempt that we have given up: this is another's
		// tombstone that looks like ours, and the engine tries again with a new id.
		return answer{}, &fencelock.LostError{Reason: fencelock.Deleted}
	case "ahead":
		return answer{}, lease.Unfit(fmt.Errorf("redis: MinToken(%d) is more than a day ahead of the server's clock (%s)", r.Min, reply[1]))
	case "full":
		return answer{}, lease.Unfit(fmt.Errorf("%w: no token above MinToken(%d) and the counter fits into an int64",
			fencelock.ErrRegressed, r.Min))
	default:
		return answer{}, fmt.Errorf("redis: unexpected reply %q", reply)
	}
}

// Renew implements lease.Driver: the whole batch shares pipelines.
func (d *driver) Renew(ctx context.Context, rs []lease.Request, gs []lease.Grant, errs []error) {
	calls := make([]redisnode.Call, len(rs))
	for i, r := range rs {
		calls[i] = renewal(r)
	}
	for i, res := range d.node.RunAll(ctx, calls) {
		errs[i] = renewed(res, &gs[i], rs[i])
	}
}

func renewal(r lease.Request) redisnode.Call {
	return redisnode.Call{
		Script: renewScript,
		Keys:   []string{r.Key},
		Args:   []string{r.Attempt, strconv.FormatInt(r.TTL.Milliseconds(), 10)},
	}
}

// renewed reads the answer to a renewal into g.
func renewed(res redisnode.Result, g *lease.Grant, r lease.Request) error {
	if res.Err != nil {
		return res.Err
	}
	reply, err := res.Strings()
	if err != nil {
		return err
	}
	if reply[0] != "renewed" {
		return lost(reply[0])
	}
	g.Since, g.TTL = res.Sent, r.TTL.Truncate(time.Millisecond)
	return nil
}

func lost(reply string) error {
	reason := fencelock.Deleted
	if reply == "taken" {
		reason = fencelock.Taken
	}
	return &fencelock.LostError{Reason: reason}
}

// Release implements lease.Driver.
func (d *driver) Release(ctx context.Context, r lease.Request, _ lease.Grant) error {
	reply, err := d.giveUp(ctx, r)
	if err == nil && reply != "released" && reply != "again" {
		err = lost(reply)
	}
	return err
}

// Undo implements lease.Driver. The tombstone that the script leaves refuses the
// attempt if it arrives later; but only the last few are kept, so if the client
// is still not done with the attempt, it is done once more afterwards.
func (d *driver) Undo(ctx context.Context, r lease.Request) error {
	d.mu.Lock()
	late := d.late[r.Attempt]
	d.mu.Unlock()
	if late != nil && !ended(late) {
		_, _ = d.giveUp(ctx, r)
		select {
		case <-late:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	_, err := d.giveUp(ctx, r)
	return err
}

func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// giveUp runs release.lua.
func (d *driver) giveUp(ctx context.Context, r lease.Request, how ...string) (string, error) {
	res, err := d.node.Run(ctx, releaseScript, []string{r.Key, companion(r.Key)}, append([]string{r.Attempt}, how...)...)
	if err != nil {
		return "", err
	}
	reply, err := res.Strings()
	if err != nil {
		return "", err
	}
	return reply[0], nil
}

// settleLater notes that the client is still not done with an attempt, until it
// is.
func (d *driver) settleLater(attempt string, pending <-chan struct{}) {
	if pending == nil {
		return
	}
	d.mu.Lock()
	d.late[attempt] = pending
	d.mu.Unlock()
	d.node.Go(func() {
		<-pending
		d.mu.Lock()
		delete(d.late, attempt)
		d.mu.Unlock()
	})
}

// checkPolicy warns, once, of a server that may throw locks away: volatile policies
// take the lock itself, allkeys policies the counter too.
func (d *driver) checkPolicy(ctx context.Context) {
	if d.warn == nil {
		return
	}
	d.check.Do(func() {
		d.node.Go(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			if p := d.node.Policy(ctx); p != "" && p != "noeviction" {
				d.warn(ctx, "", fmt.Errorf("redis: the server's maxmemory-policy is %s: it may evict locks; set noeviction", p))
			}
		})
	})
}
