package torture

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/testserver"
)

// fault is something that was done, and undone at its end.
type fault struct {
	Kind   string
	Worker int // whose, -1 if it concerns all
	From   time.Duration
	To     time.Duration
	// Excuses an overlap of holds: no lock that expires can prevent it.
	Excuses bool
}

// nemesis does one thing after the other, with a pause between for all to recover.
type nemesis struct {
	*rand.Rand
	t        *testing.T
	w        world
	ttl      time.Duration
	crew     *crew
	register *register
	faults   []fault
}

// evil is a kind of fault. do returns whose fault it is and how it is healed,
// after so many TTLs, nil if there is nothing to be healed.
type evil struct {
	kind    string
	excuses bool
	most    float64
	do      func() (worker int, heal func())
}

const nobody = -1

// evils are those that can be done to this world.
func (n *nemesis) evils() []evil {
	link := func(f func(p *testserver.Proxy)) func() (int, func()) {
		return func() (int, func()) {
			i, links := n.crew.any(n.Rand)
			for _, p := range links {
				f(p)
			}
			return i, func() {
				for _, p := range links {
					p.Delay(testserver.Both, 0, 0)
					p.Heal()
				}
			}
		}
	}
	server := func(f, heal func(node)) func() (int, func()) {
		return func() (int, func()) {
			s := n.w.nodes[n.IntN(len(n.w.nodes))]
			if n.w.leader != nil && n.IntN(3) > 0 {
				s = n.w.leader()
			}
			f(s)
			return nobody, func() { heal(s) }
		}
	}
	once := func(f func()) func() (int, func()) {
		return func() (int, func()) { f(); return nobody, nil }
	}
	late := func(p *testserver.Proxy) {
		p.Freeze([]testserver.Direction{testserver.ToClient, testserver.ToServer}[n.IntN(2)])
	}
	all := []evil{
		{"worker-pause", true, 2, func() (int, func()) { return n.crew.pauseHolder(n.Rand, n.register) }},
		{"worker-kill", false, 0.5, func() (int, func()) { return n.crew.kill(n.Rand) }},
		{"server-pause", false, 1.2, server(node.Pause, node.Resume)},
		{"server-kill", n.w.session, 0.5, server(node.Kill, node.Restart)},
		{"link-cut", false, 1.2, link((*testserver.Proxy).Cut)},
		{"link-hole", false, 1.2, link(func(p *testserver.Proxy) { p.Drop(testserver.Both) })},
		{"replies-lost", false, 1.2, link(func(p *testserver.Proxy) { p.Drop(testserver.ToClient) })},
		{"link-late", false, 1.2, link(late)},
		{"link-slow", false, 1.2, link(func(p *testserver.Proxy) { p.Delay(testserver.Both, n.ttl/8, n.ttl/4) })},
	}
	more := func(kind string, there, excuses bool, f func()) {
		if there {
			all = append(all, evil{kind, excuses, 0, once(f)})
		}
	}
	more("clock-step", n.w.step != nil, n.w.wall, func() { n.w.step(n.ttl * time.Duration(1-2*n.IntN(2))) })
	more("deletion", n.w.remove != nil, true, func() { n.w.remove(n.crew.names[n.IntN(len(n.crew.names))]) })
	more("wipe", n.w.wipe != nil, true, n.w.wipe)
	more("compaction", n.w.compact != nil, false, n.w.compact)
	more("termination", n.w.terminate != nil, n.w.session, n.w.terminate)
	return all
}

// rage goes on for so long. Every kind has its turn before the first comes again.
func (n *nemesis) rage(lasts time.Duration) {
	evils := n.evils()
	var turn []evil
	for start := time.Now(); time.Since(start) < lasts; {
		if len(turn) == 0 {
			turn = append(turn, evils...)
			n.Shuffle(len(turn), func(i, j int) { turn[i], turn[j] = turn[j], turn[i] })
		}
		e := turn[0]
		turn = turn[1:]
		f := fault{Kind: e.kind, Excuses: e.excuses, From: now()}
		worker, heal := e.do()
		if heal != nil {
			time.Sleep(time.Duration(float64(n.ttl) * e.most * (0.2 + 0.8*n.Float64())))
			heal()
		}
		f.Worker, f.To = worker, now()
		n.faults = append(n.faults, f)
		time.Sleep(n.ttl / 4)
	}
}
