package main

import (
	"fmt"
	"slices"
)

// ratio compares a figure of ours with a peer's or, without a peer, with a bound
// of its own.
type ratio struct {
	Workload string  `json:"workload"`
	Ours     string  `json:"ours"`
	Peer     string  `json:"peer"`
	Figure   string  `json:"figure"`
	Ratio    float64 `json:"ratio"`
	AtLeast  float64 `json:"at_least,omitempty"`
	AtMost   float64 `json:"at_most,omitempty"`
}

func (r ratio) met() bool {
	return (r.AtLeast == 0 || r.Ratio >= r.AtLeast) && (r.AtMost == 0 || r.Ratio <= r.AtMost)
}

func (r ratio) wanted() string {
	if r.AtMost > 0 {
		return fmt.Sprintf("<= %.4g", r.AtMost)
	}
	return fmt.Sprintf(">= %.4g", r.AtLeast)
}

// The figures that are compared.
var (
	locks     = figure{"locks/s", func(r row) float64 { return r.Locks }}
	p99       = figure{"p99", func(r row) float64 { return r.P99 }}
	p99ms     = figure{"p99 in ms", func(r row) float64 { return r.P99 / 1000 }}
	timeouts  = figure{"time-outs + 1", func(r row) float64 { return float64(r.Timeouts) + 1 }}
	unfair    = figure{"max/min", func(r row) float64 { return r.Unfair }}
	possible  = figure{"of the possible", func(r row) float64 { return r.Possible }}
	perLock   = figure{"commands a lock", func(r row) float64 { return r.Commands }}
	perWaiter = figure{"commands/s of a waiter", func(r row) float64 { return r.Rate }}
	heap      = figure{"MB of heap", func(r row) float64 { return r.Heap }}
	routines  = figure{"goroutines", func(r row) float64 { return r.Routines }}
	cpu       = figure{"% of a core", func(r row) float64 { return r.CPU }}
)

type figure struct {
	name string
	of   func(row) float64
}

// goal is what a ratio should be. peer is a contender, the kind of those of whom
// the best counts, or empty: the figure itself is compared.
type goal struct {
	workload, ours, peer string
	figure
	least, most float64
}

const (
	floorName = "SET NX PX + compare-delete"
	byHand    = "pg session advisory lock"
)

var goals = []goal{
	{"solo", "fencelock/redis", floorName, locks, 0.92, 0},
	{"solo", "fencelock/redis", "redis", locks, 0.95, 0},
	{"par", "fencelock/redis", floorName, locks, 1.4, 0},
	{"par", "fencelock/redis", "redis", locks, 1.25, 0},
	{"hot", "fencelock/redis", "redis", locks, 50, 0},
	{"hot", "fencelock/redis", "", p99ms, 0, 5},
	{"hot", "fencelock/redis", "", timeouts, 0, 1},
	{"hot", "fencelock/redis", "", unfair, 0, 1.5},
	{"hot1ms", "fencelock/redis", "", possible, 0.95, 0},
	{"hot1ms", "fencelock/redis", byHand, p99, 0, 1.5},
	{"spread", "fencelock/redis", "redis", locks, 1.2, 0},
	{"spread", "fencelock/redis", "", p99ms, 0, 10},
	{"spread", "fencelock/redis", "", timeouts, 0, 1},
	{"spread", "fencelock/redis", byHand, locks, 0.8, 0},
	{"spread", "fencelock/redis", "", perLock, 0, 2},
	{"solo", "fencelock/redlock-5", "redlock-5", locks, 1.5, 0},
	{"hot", "fencelock/redlock-5", "redlock-5", locks, 50, 0},
	{"hot", "fencelock/redlock-5", "redlock-5", p99, 0, 0.1},
	{"hot1ms", "fencelock/redlock-5", "", possible, 0.9, 0},
	{"hot1ms", "fencelock/redlock-5", "", unfair, 0, 1.5},
	{"hot", "fencelock/pg.NewAdvisory", byHand, locks, 5, 0},
	{"hot", "fencelock/pg.NewLease", byHand, locks, 3, 0},
	{"solo", "fencelock/etcd", "etcd", locks, 1, 0},
	{"hot", "fencelock/etcd", "etcd", locks, 20, 0},
	{"four", "fencelock/etcd", "etcd", locks, 5, 0},
	{"spread", "fencelock/etcd", "etcd", locks, 5, 0},
	{"solo", "fencelock/zk", "zk", locks, 1, 0},
	{"hot", "fencelock/zk", "zk", locks, 10, 0},
	{"spread", "fencelock/zk", "zk", locks, 1, 0},
	{"hold", "fencelock/redis", "", heap, 0, 24},
	{"hold", "fencelock/redis", "", routines, 0, 50},
	{"hold", "fencelock/redis", "", cpu, 0, 10},
	{"wait", "fencelock/redis", "", perWaiter, 0, 1.1},
	// Against 594 of the published spin lock: 99 who poll every 50 ms for 300 ms.
	{"queue", "fencelock/redis", "", perLock, 0, 594},
}

// compare says how the goals are met of which there are figures.
func compare(rows []row) (ratios []ratio) {
	find := func(workload, who string) (row, bool) {
		i := slices.IndexFunc(rows, func(r row) bool { return r.Workload == workload && r.Who == who })
		if i < 0 {
			return row{}, false
		}
		return rows[i], true
	}
	best := func(workload, kind string) (found row, ok bool) {
		for _, r := range rows {
			if r.Workload == workload && r.kind == kind && r.peer && r.Who != floorName && (!ok || r.Locks > found.Locks) {
				found, ok = r, true
			}
		}
		return found, ok
	}
	for _, g := range goals {
		us, ok := find(g.workload, g.ours)
		if !ok {
			continue
		}
		r := ratio{Workload: g.workload, Ours: g.ours, Figure: g.name, Ratio: g.of(us), AtLeast: g.least, AtMost: g.most}
		if g.peer != "" {
			them, ok := find(g.workload, g.peer)
			if !ok {
				them, ok = best(g.workload, g.peer)
			}
			if !ok {
				continue
			}
			r.Peer, r.Ratio = them.Who, g.of(us)/g.of(them)
		}
		ratios = append(ratios, r)
	}
	return ratios
}
