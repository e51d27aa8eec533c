package redlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/redisnode"
)

var errSilent = errors.New("no answer in time")

// Try makes one attempt: one round to all nodes at once, and a second one if
// the first proposal was stale. It waits for a majority, not for the last node.
// All its errors are definite: it gives the attempt up itself, since it
// knows which nodes may have accepted it.
func (d *driver) Try(ctx context.Context, r lease.Request) (lease.Grant, error) {
	if r.Min == math.MaxInt64 {
		return lease.Grant{}, lease.Unfit(fmt.Errorf("redlock: there is no token above MinToken(%d)", r.Min))
	}
	c := d.campaign(r)
	g, err := c.run(ctx)
	if err == nil && d.source != nil {
		g, err = d.mint(ctx, r, g)
	}
	if err == nil && time.Since(g.Since) >= validity(g.TTL) {
		err = late()
	}
	if err != nil {
		c.giveUp(ctx)
		return lease.Grant{}, err
	}
	c.leaveQueues()
	return g, nil
}

// late is the error of a lock that was had, but not before its validity ended.
// The engine tries again.
func late() error { return lease.Definite(&fencelock.LostError{Reason: fencelock.Expired}) }

// campaign takes one attempt through its ballot.
type campaign struct {
	d       *driver
	r       lease.Request
	ballot  *ballot
	waiter  string
	keys    []string
	cast    chan cast
	sent    time.Time // start of the present round
	pending int       // votes on their way, of all rounds
	dirty   []bool    // by node: it may have accepted something
}

// cast is a vote that has arrived.
type cast struct {
	node int
	vote vote
	lost bool // the node may have accepted, and its answer been lost
}

func (d *driver) campaign(r lease.Request) *campaign {
	size, least := r.Tokens(), r.Min
	if d.source != nil {
		size, least = 1, 0 // they concern the source's tokens
	}
	now := fencelock.Token(time.Now().UnixMicro())
	return &campaign{
		d:      d,
		r:      r,
		ballot: newBallot(len(d.nodes), d.floors.get(r.Key), least, now, size),
		waiter: d.turns.waiter(r.Key),
		keys:   keysOf(r.Key),
		cast:   make(chan cast, 2*len(d.nodes)), // of two rounds: no sender ever waits
		dirty:  make([]bool, len(d.nodes)),
	}
}

func (c *campaign) run(ctx context.Context) (lease.Grant, error) {
	patience := c.d.patience(c.r.TTL)
	early := time.NewTimer(patience / 10)
	defer early.Stop()
	late := time.NewTimer(patience)
	defer late.Stop()
	c.send(ctx)
	for {
		state := open
		select {
		case v := <-c.cast:
			c.note(v)
			state = c.ballot.hear(v.node, v.vote)
		case <-early.C:
			// A hung node must not make those wait who have half of the votes each. Where
			// most look hung, the machine is busy, and nothing but patience helps.
			if c.d.suspected() <= len(c.d.nodes)/2 {
				state = c.ballot.silence(errSilent, func(node int) bool { return c.d.suspects[node].Load() })
			}
		case <-late.C:
			state = c.ballot.silence(errSilent, func(int) bool { return true })
		case <-ctx.Done():
			return lease.Grant{}, lease.Definite(ctx.Err())
		}
		b := c.ballot
		switch state {
		case won:
			c.d.floors.raise(c.r.Key, b.last)
			return lease.Grant{
				First: b.first, Last: b.last,
				Since: c.sent, TTL: c.r.TTL.Truncate(time.Millisecond),
				State: b.block,
			}, nil
		case again:
			early.Reset(patience / 10)
			late.Reset(patience)
			c.send(ctx)
		case refused:
			c.d.floors.raise(c.r.Key, b.median())
			return lease.Grant{}, &fencelock.HeldError{For: b.left()}
		case absent:
			return lease.Grant{}, lease.Definite(noQuorum(len(b.votes)-len(b.errs()), len(b.votes), b.errs()))
		case exhausted:
			err := fmt.Errorf("redlock: a token above %d is more than a day ahead of the counters and clocks of the nodes", b.min)
			if b.min > 0 {
				return lease.Grant{}, lease.Unfit(err)
			}
			return lease.Grant{}, lease.Definite(err)
		}
	}
}

// send proposes the ballot's block to all nodes.
func (c *campaign) send(ctx context.Context) {
	c.sent = time.Now()
	c.pending += len(c.d.nodes)
	p := proposal{c.ballot.block, c.r.Attempt, c.r.TTL, c.waiter}
	call, patience := p.call(c.keys), c.d.patience(c.r.TTL)
	for node := range c.d.nodes {
		c.d.crew.spawn(func() {
			res := c.d.ask(ctx, node, call, patience)
			c.cast <- cast{node, p.vote(res), mayHaveTaken(res)}
		})
	}
}

// mayHaveTaken reports whether a call that failed may have taken the lock
// nevertheless. Not so if the server itself reports the error, once: the lock is
// the last thing that the script writes.
func mayHaveTaken(res redisnode.Result) bool {
	return res.Err != nil && !res.Unsent() && !res.Rejected()
}

func (c *campaign) note(v cast) {
	c.pending--
	if v.vote.verdict == accepted || v.lost {
		c.dirty[v.node] = true
	}
}

// leaveQueues takes this Locker, which has won, out of the queues of the nodes
// that have not accepted, each after its own answer. The others have done so.
func (c *campaign) leaveQueues() {
	if c.waiter == "" {
		return
	}
	c.d.turns.won(c.r.Key)
	votes := slices.Clone(c.ballot.votes)
	c.d.crew.spawn(func() {
		for ; c.pending > 0; c.pending-- {
			v := <-c.cast
			votes[v.node] = v.vote
		}
		for node, v := range votes {
			if v.verdict != accepted {
				c.d.turns.leave(node, c.r.Key)
			}
		}
	})
}

// giveUp buries the attempt where it may have been accepted, and nowhere else:
// a clean refusal needs no release. It waits for the nodes that have answered, so
// that a lost vote is out of the others' way; later answers are dealt with in
// the background.
func (c *campaign) giveUp(ctx context.Context) {
	d := c.d
	patience := d.patience(c.r.TTL)
	buried := make(chan struct{}, len(d.nodes))
	waiting := 0
	bury := func(node int) {
		g := grave{key: c.r.Key, attempt: c.r.Attempt, last: c.ballot.last}
		d.crew.spawn(func() {
			d.tell(ctx, node, chore{g.call(), time.Now().Add(c.r.TTL)}, patience)
			buried <- struct{}{}
		})
	}
	for node, dirty := range c.dirty {
		if dirty {
			bury(node)
			waiting++
		}
	}
	if c.pending > 0 {
		d.crew.spawn(func() {
			for c.pending > 0 {
				v := <-c.cast
				was := c.dirty[v.node]
				c.note(v)
				if c.dirty[v.node] && !was {
					bury(v.node)
				}
				if c.waiter != "" && v.vote.verdict == held && d.turns.over(c.r.Key) {
					d.turns.leave(v.node, c.r.Key)
				}
			}
		})
	}
	for ; waiting > 0; waiting-- {
		select {
		case <-buried:
		case <-ctx.Done():
			return
		}
	}
}
