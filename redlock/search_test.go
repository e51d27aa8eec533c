package redlock

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
)

// R19: the driver's own ballots against nodes, over a network that loses,
// delays, duplicates and reorders, with locks that expire at any moment and
// clocks that say anything. The tokens of a later grant must be greater.
func TestNoScheduleInvertsTokens(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		t.Run(strconv.Itoa(nodes), func(t *testing.T) {
			n := schedules(100_000)
			grants, bad := search(n, func(seed uint64) *world { return newWorld(seed, nodes) })
			require.Empty(t, bad)
			require.Greater(t, grants, n/2, "the search has hardly granted anything")
			t.Logf("%d schedules, %d grants", n, grants)
		})
	}
}

// The search must be able to find what is wrong.
func TestSearchFindsBrokenRules(t *testing.T) {
	breaks := map[string]func(*world){
		"a node accepts what is equal to its counter": func(w *world) {
			for _, n := range w.nodes {
				n.loose = true
			}
		},
		"accepts of both rounds are counted": func(w *world) { w.countsOldRounds = true },
		"a minority is enough":               func(w *world) { w.minority = true },
		"a node forgets a few tokens":        func(w *world) { w.forgets = true },
	}
	for name, sabotage := range breaks {
		t.Run(name, func(t *testing.T) {
			_, bad := search(schedules(100_000), func(seed uint64) *world {
				w := newWorld(seed, 3)
				sabotage(w)
				return w
			})
			require.NotEmpty(t, bad)
		})
	}
}

// searchShare is the part of the schedules that is run: one in so many.
var searchShare = 1

func schedules(n int) int {
	if testing.Short() {
		n /= 10
	}
	return n / searchShare
}

// search runs worlds until one goes wrong, and says what it found.
func search(n int, create func(seed uint64) *world) (grants int, bad string) {
	var next, total atomic.Int64
	var found atomic.Pointer[string]
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for found.Load() == nil {
				seed := next.Add(1)
				if seed > int64(n) {
					return
				}
				w := create(uint64(seed))
				if s := w.run(); s != "" {
					s = fmt.Sprintf("seed %d: %s", seed, s)
					found.Store(&s)
				}
				total.Add(int64(len(w.grants)))
			}
		})
	}
	all.Wait()
	if s := found.Load(); s != nil {
		bad = *s
	}
	return int(total.Load()), bad
}

// world is some clients and nodes and what is on its way between them. One step
// is one event; there is no other time.
type world struct {
	*rand.Rand
	nodes   []*model
	clients []*simClient
	air     []message
	grants  []grant
	names   int

	countsOldRounds, minority, forgets bool // broken on purpose
}

type grant struct {
	block
	known fencelock.Token // greatest token of grants decided before this attempt began
}

// simClient is one process, with the parts of the driver that decide.
type simClient struct {
	skew    fencelock.Token // of its clock
	seen    floors
	ballot  *ballot // nil: idle or holding
	attempt string
	known   fencelock.Token
	holds   bool
}

// message is a proposal, a burial or the answer to a proposal.
type message struct {
	client, node int
	attempt      string
	block        block
	bury, answer bool
	vote         vote
}

func newWorld(seed uint64, nodes int) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 1))}
	start := 30 * day
	for range nodes {
		n := &model{now: start + w.skew()}
		if w.IntN(4) > 0 {
			n.counter = n.now - fencelock.Token(w.IntN(20))
		}
		w.nodes = append(w.nodes, n)
	}
	for range 2 + w.IntN(2) {
		w.clients = append(w.clients, &simClient{skew: start + w.skew()})
	}
	return w
}

// skew is mostly of the length of a run, so that tokens meet, and sometimes far
// off.
func (w *world) skew() fencelock.Token {
	switch w.IntN(8) {
	case 0:
		return 2*day - fencelock.Token(w.Int64N(4*int64(day)))
	case 1:
		return hour - fencelock.Token(w.Int64N(2*int64(hour)))
	}
	return fencelock.Token(w.IntN(60) - 30)
}

func (w *world) run() string {
	for step := range 50 * len(w.nodes) {
		now := fencelock.Token(step)
		for _, n := range w.nodes {
			n.now++
		}
		switch w.IntN(4 * len(w.nodes)) {
		case 0: // a lock expires
			w.nodes[w.IntN(len(w.nodes))].expire()
		case 1, 2, 3:
			w.act(w.IntN(len(w.clients)), now)
		default:
			if len(w.air) > 0 {
				if bad := w.deliver(); bad != "" {
					return bad
				}
			}
		}
	}
	return ""
}

// act lets a client do something of its own accord.
func (w *world) act(i int, now fencelock.Token) {
	c := w.clients[i]
	switch {
	case c.holds: // lets go, knowingly or not
		c.holds = false
		if w.IntN(3) > 0 {
			w.bury(i, c.ballot.last)
		}
		c.ballot = nil
	case c.ballot == nil:
		w.names++
		c.attempt = fmt.Sprintf("%032x", w.names)
		c.known = 0
		for _, g := range w.grants {
			c.known = max(c.known, g.last)
		}
		c.ballot = newBallot(len(w.nodes), c.seen.get("x"), 0, now+c.skew, 1+w.IntN(6))
		w.propose(i)
	case w.IntN(3) == 0: // has waited long enough
		w.decide(i, c.ballot.silence(errSilent, func(int) bool { return true }))
	}
}

func (w *world) propose(i int) {
	c := w.clients[i]
	for n := range w.nodes {
		w.air = append(w.air, message{client: i, node: n, attempt: c.attempt, block: c.ballot.block})
	}
}

func (w *world) bury(i int, last fencelock.Token) {
	for n := range w.nodes {
		w.air = append(w.air, message{client: i, node: n, attempt: w.clients[i].attempt, block: block{last: last}, bury: true})
	}
}

// deliver takes any message out of the air, or loses it, or leaves a copy.
func (w *world) deliver() (bad string) {
	k := w.IntN(len(w.air))
	m := w.air[k]
	if w.IntN(8) > 0 {
		w.air[k] = w.air[len(w.air)-1]
		w.air = w.air[:len(w.air)-1]
	}
	if w.IntN(12) == 0 {
		return ""
	}
	n, c := w.nodes[m.node], w.clients[m.client]
	switch {
	case m.bury:
		n.release(m.attempt, m.block.last)
		if w.forgets {
			n.counter -= 3
		}
	case !m.answer:
		m.vote, m.answer = n.acquire(m.attempt, m.block), true
		w.air = append(w.air, m)
	case c.ballot != nil && !c.holds && m.attempt == c.attempt:
		if w.countsOldRounds {
			m.vote.to = c.ballot.block
		}
		return w.decide(m.client, c.ballot.hear(m.node, m.vote))
	}
	return ""
}

func (w *world) decide(i int, r result) (bad string) {
	c := w.clients[i]
	b := c.ballot
	if w.minority && r == open && b.votes[0].verdict == accepted {
		r = won
	}
	switch r {
	case open:
	case again:
		w.propose(i)
	case won:
		c.holds = true
		c.seen.raise("x", b.last)
		g := grant{b.block, c.known}
		for _, h := range w.grants {
			if g.first <= h.last && h.first <= g.last {
				bad = fmt.Sprintf("tokens %v were granted twice: %v", g.block, h.block)
			}
		}
		if g.first <= c.known {
			bad = fmt.Sprintf("tokens %v were granted after %d", g.block, c.known)
		}
		w.grants = append(w.grants, g)
	default:
		c.seen.raise("x", b.median())
		w.bury(i, b.last)
		c.ballot = nil
	}
	return bad
}
