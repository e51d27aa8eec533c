package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/redisnode"
)

// driver is lease.Driver, lease.Waker and lease.Idler over independent nodes.
type driver struct {
	nodes    []*redisnode.Node
	janitors []*janitor    // one a node
	suspects []atomic.Bool // by node: its last call got no answer in time
	crew     crew          // all goroutines but those of the nodes
	timeout  time.Duration // of a call, at most
	ttl      time.Duration // unless a call has its own
	prefix   string
	source   fencelock.TokenSource // nil: the nodes' own tokens
	floors   floors
	turns    turns
}

var _ interface {
	lease.Driver
	lease.Waker
	lease.Idler
} = (*driver)(nil)

// validity is how long a TTL may be trusted from the sending of the request,
// with a margin for clocks that run at different rates.
func validity(ttl time.Duration) time.Duration { return ttl - ttl/100 - 2*time.Millisecond }

// patience is how long to wait for a node within ttl.
func (d *driver) patience(ttl time.Duration) time.Duration { return min(d.timeout, ttl*3/4) }

func (d *driver) quorum() int { return len(d.nodes)/2 + 1 }

// suspected is the number of nodes whose last call got no answer in time.
func (d *driver) suspected() (n int) {
	for i := range d.suspects {
		if d.suspects[i].Load() {
			n++
		}
	}
	return n
}

// Renew extends each hold that a majority of the nodes confirms. A node without
// our key does not count and does not get it back.
func (d *driver) Renew(ctx context.Context, rs []lease.Request, gs []lease.Grant, errs []error) {
	calls := make([]redisnode.Call, len(rs))
	patience := d.timeout
	for i, r := range rs {
		calls[i] = redisnode.Call{Script: renewScript, Keys: []string{r.Key}, Args: []string{
			value(r.Attempt, gs[i].State.(block)), millis(r.TTL),
		}}
		patience = min(patience, d.patience(r.TTL))
	}
	sent := time.Now()
	answers := make(chan answers, len(d.nodes))
	for n := range d.nodes {
		d.crew.spawn(func() { answers <- d.askAll(ctx, n, calls, patience) })
	}
	tallies := make([]tally, len(rs))
	for i := range tallies {
		tallies[i].nodes = len(d.nodes)
	}
	undecided := len(rs)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for heard := 0; heard < len(d.nodes) && undecided > 0; heard++ {
		select {
		case a := <-answers:
			undecided = 0
			for i, s := range a.standings {
				tallies[i].add(s, a.errs[i])
				if tallies[i].open() {
					undecided++
				}
			}
		case <-timer.C:
			heard = len(d.nodes)
		case <-ctx.Done():
			heard = len(d.nodes)
		}
	}
	for i, r := range rs {
		switch t := &tallies[i]; {
		case t.confirmed():
			gs[i].Since, gs[i].TTL = sent, r.TTL.Truncate(time.Millisecond)
		case t.lost():
			errs[i] = &fencelock.LostError{Reason: t.reason()}
			d.abandon(r, gs[i].State.(block).last)
		default:
			errs[i] = t.err(ctx)
		}
	}
}

// Release gives the hold up at every node and returns when a majority has
// deleted it or its loss is certain; the other nodes are told in the background
// for as long as it takes, at most the TTL.
func (d *driver) Release(ctx context.Context, r lease.Request, g lease.Grant) error {
	t := d.bury(ctx, r, g.State.(block).last, false)
	switch {
	case t.confirmed():
		return nil
	case t.lost():
		return &fencelock.LostError{Reason: t.reason()}
	case t.answered() >= d.quorum() && ctx.Err() == nil:
		return nil // given up at a majority, and no proof that it had been lost before
	}
	return t.err(ctx)
}

// Undo is for attempts that Try has granted or left unfinished; those that it
// fails it gives up itself, since it knows what the nodes have accepted.
func (d *driver) Undo(ctx context.Context, r lease.Request) error {
	t := d.bury(ctx, r, 0, false)
	if t.answered() < d.quorum() {
		return t.err(ctx)
	}
	return nil
}

// bury tells all nodes to give r up, and that it is not its holder that does, if
// it is broken.
func (d *driver) bury(ctx context.Context, r lease.Request, last fencelock.Token, broken bool) tally {
	type reply struct {
		standing
		err error
	}
	replies := make(chan reply, len(d.nodes))
	g, until := grave{r.Key, r.Attempt, last, broken}, time.Now().Add(r.TTL)
	for node := range d.nodes {
		d.crew.spawn(func() {
			s, err := d.tell(ctx, node, chore{g.call(), until}, d.patience(r.TTL))
			replies <- reply{s, err}
		})
	}
	t := tally{nodes: len(d.nodes)}
	for t.open() {
		select {
		case a := <-replies:
			t.add(a.standing, a.err)
		case <-ctx.Done():
			return t
		}
	}
	return t
}

// tell gives a node a chore, and leaves it to its janitor if it does not
// confirm in time.
func (d *driver) tell(ctx context.Context, node int, c chore, patience time.Duration) (standing, error) {
	s, err := standingOf(d.ask(ctx, node, c.Call, patience))
	if err != nil {
		d.janitors[node].add(c)
	}
	return s, err
}

// abandon buries r in the background.
func (d *driver) abandon(r lease.Request, last fencelock.Token) {
	d.crew.spawn(func() { d.bury(context.Background(), r, last, false) })
}

// ask makes one call to a node, for at most patience, whatever becomes of ctx.
func (d *driver) ask(ctx context.Context, node int, c redisnode.Call, patience time.Duration) redisnode.Result {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	res, _ := d.nodes[node].Run(ctx, c.Script, c.Keys, c.Args...)
	d.suspects[node].Store(errors.Is(res.Err, context.DeadlineExceeded))
	return res
}

// answers is what a node says of a batch.
type answers struct {
	standings []standing
	errs      []error
}

func (d *driver) askAll(ctx context.Context, node int, calls []redisnode.Call, patience time.Duration) answers {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	a := answers{make([]standing, len(calls)), make([]error, len(calls))}
	for i, res := range d.nodes[node].RunAll(ctx, calls) {
		a.standings[i], a.errs[i] = standingOf(res)
	}
	return a
}

// tally counts what the nodes say of one hold.
type tally struct {
	nodes int
	of    [taken + 1]int
	errs  []error
}

func (t *tally) add(s standing, err error) {
	t.of[s]++
	if err != nil {
		t.errs = append(t.errs, err)
	}
}

// answered is the number of nodes that know.
func (t *tally) answered() int { return t.of[ours] + t.of[free] + t.of[taken] }

// confirmed: a majority has, or had, the hold.
func (t *tally) confirmed() bool { return t.of[ours] > t.nodes/2 }

// lost: so many nodes do not have it that no majority can.
func (t *tally) lost() bool { return t.of[free]+t.of[taken] > (t.nodes-1)/2 }

// open: more answers may decide.
func (t *tally) open() bool {
	return !t.confirmed() && !t.lost() && t.answered()+t.of[unknown] < t.nodes
}

func (t *tally) reason() fencelock.Reason {
	if t.of[taken] > 0 {
		return fencelock.Taken
	}
	return fencelock.Deleted
}

func (t *tally) err(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return noQuorum(t.answered(), t.nodes, t.errs)
}

func noQuorum(answered, nodes int, errs []error) error {
	return fmt.Errorf("redlock: %d of %d nodes answered: %w", answered, nodes, errors.Join(errs...))
}
