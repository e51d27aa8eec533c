package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// workload is what the contenders do.
type workload struct {
	name, what string
	processes  int
	goroutines int  // of each
	own        bool // a lock for each goroutine
	lockers    bool // and a client and a Locker, as if it were a process
	hold       time.Duration
	whole      bool     // a hold lasts to the end of the run, and so do the waits
	ours       bool     // not for the peers
	kinds      []string // of servers; all by default
	mode       string   // of the workers; see order
}

var workloads = []workload{
	{name: "solo", what: "one goroutine, nobody else wants the lock", processes: 1, goroutines: 1, own: true},
	{name: "par", what: "64 goroutines, a lock each", processes: 1, goroutines: 64, own: true},
	{name: "hot", what: "4 processes of 10 goroutines want one lock and hold it for no time", processes: 4, goroutines: 10},
	{name: "hot1ms", what: "4 processes of 10 goroutines want one lock and hold it for 1 ms", processes: 4, goroutines: 10, hold: time.Millisecond},
	{name: "four", what: "4 processes of one goroutine want one lock and hold it for no time", processes: 4, goroutines: 1},
	{name: "spread", what: "20 processes of one goroutine want one lock and hold it for no time", processes: 20, goroutines: 1},
	{name: "hold", what: "one process holds 10,000 locks with a TTL of 10 s", processes: 1, goroutines: 64, ours: true, kinds: []string{"redis"}, mode: holding},
	{name: "wait", what: "19 processes wait for a lock that is held all the time", processes: 20, goroutines: 1, whole: true, kinds: []string{"redis"}},
	{name: "queue", what: "100 clients want one lock and hold it for 300 ms", processes: 4, goroutines: 25, lockers: true, hold: 300 * time.Millisecond, kinds: []string{"redis"}},
}

func (w workload) contended() bool { return !w.own }

// row is what one contender did in one workload: the median of some rounds.
type row struct {
	Workload string  `json:"workload"`
	Who      string  `json:"who"`
	Locks    float64 `json:"locks_per_s"`
	P50      float64 `json:"p50_us"`
	P95      float64 `json:"p95_us"`
	P99      float64 `json:"p99_us"`
	Max      float64 `json:"max_us"`
	Timeouts int     `json:"timeouts"`
	Commands float64 `json:"cmds_per_lock"`             // -1: unknown
	Unfair   float64 `json:"max_min,omitempty"`         // most locks of a process / fewest
	Possible float64 `json:"of_possible,omitempty"`     // of the time, some holder had it
	Heap     float64 `json:"heap_mb,omitempty"`         // of a process that holds
	Routines float64 `json:"goroutines,omitempty"`      // of it
	CPU      float64 `json:"cpu_percent,omitempty"`     // of one core
	Rate     float64 `json:"cmds_per_s_each,omitempty"` // commands a second of one that holds or waits
	Extra    string  `json:"-"`

	kind  string
	peer  bool
	waits histogram
}

// run has all contenders do w by turns.
func (w workload) run(ctx context.Context, m *machine, field []contender, rounds int, lasts time.Duration) ([]row, error) {
	got := make([][]row, len(field))
	for round := range rounds {
		for i, c := range field {
			s := m.server(c.kind)
			if s.missing != nil {
				if round == 0 {
					fmt.Printf("%s: %s is left out: %v\n", w.name, c.who, s.missing)
				}
				continue
			}
			r, err := w.once(ctx, s, c, lasts)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.who, err)
			}
			r.Workload, r.Who, r.kind, r.peer = w.name, c.who, c.kind, c.peer
			got[i] = append(got[i], r)
		}
	}
	var rows []row
	for _, rs := range got {
		if len(rs) > 0 {
			rows = append(rows, median(rs))
		}
	}
	return rows, nil
}

// once has one contender do w.
func (w workload) once(ctx context.Context, s server, c contender, lasts time.Duration) (row, error) {
	o := order{
		Who: c.who, Addrs: s.addrs, Goroutines: w.goroutines, Own: w.own, Hold: w.hold, Lasts: lasts, Mode: w.mode,
		Name: fmt.Sprint("bench/", time.Now().UnixNano()), Patience: patience,
	}
	if w.lockers {
		o.Lockers = w.goroutines
	}
	if w.whole || w.lockers {
		o.Patience = lasts
	}
	if w.whole {
		o.Hold = lasts
	}
	reports, commands, err := race(ctx, s, slices.Repeat([]order{o}, w.processes))
	if err != nil {
		return row{}, err
	}
	all := report{Waits: make(histogram)}
	most, fewest := 0, reports[0].Locks
	for _, r := range reports {
		all.add(r)
		most, fewest = max(most, r.Locks), min(fewest, r.Locks)
	}
	r := row{
		Locks: float64(all.Locks) / lasts.Seconds(), Timeouts: all.Timeouts, Commands: -1,
		P50: all.Waits.quantile(0.5), P95: all.Waits.quantile(0.95), P99: all.Waits.quantile(0.99), Max: all.Waits.quantile(1),
		Heap: all.Heap, Routines: float64(all.Routines), CPU: 100 * all.CPU.Seconds() / lasts.Seconds(),
		waits: all.Waits,
	}
	if commands >= 0 {
		r.Commands = float64(commands) / float64(max(1, all.Locks))
	}
	switch {
	case w.mode == holding:
		r.Rate = float64(commands) / lasts.Seconds() / held
		r.Extra = fmt.Sprintf("%.1f MB of heap, %.0f goroutines, %.1f %% of a core, %.3f commands/s each", r.Heap, r.Routines, r.CPU, r.Rate)
	case w.whole:
		r.Timeouts = 0 // which they all have
		r.Rate = float64(commands) / lasts.Seconds() / float64(w.processes-1)
		r.Extra = fmt.Sprintf("%.2f commands/s of a waiter", r.Rate)
	case w.hold > 0:
		r.Possible = all.Held.Seconds() / lasts.Seconds()
		r.Extra = fmt.Sprintf("held for %.2f of the time", r.Possible)
		fallthrough
	case w.processes > 1:
		r.Unfair = float64(most) / float64(max(1, fewest))
	}
	return r, nil
}

// race has processes begin at one moment, and returns how many commands the server
// executed meanwhile, or -1.
func race(ctx context.Context, s server, orders []order) (reports []report, commands int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var ps []*process
	for _, o := range orders {
		p, err := employ(ctx, o)
		if err != nil {
			return nil, 0, err
		}
		ps = append(ps, p)
	}
	before := s.count()
	for _, p := range ps {
		if err := p.start(); err != nil {
			return nil, 0, err
		}
	}
	for _, p := range ps {
		r, err := p.result()
		if err != nil {
			return nil, 0, err
		}
		reports = append(reports, r)
	}
	if before < 0 {
		return reports, -1, nil
	}
	return reports, s.count() - before, nil
}

func (s server) count() int {
	if s.commands == nil {
		return -1
	}
	return s.commands()
}

// median takes the median of each column by itself, and all waits together.
func median(rs []row) row {
	m := rs[0]
	of := func(column func(*row) *float64) {
		var values []float64
		for i := range rs {
			values = append(values, *column(&rs[i]))
		}
		slices.Sort(values)
		*column(&m) = values[len(values)/2]
	}
	for _, column := range []func(*row) *float64{
		func(r *row) *float64 { return &r.Locks }, func(r *row) *float64 { return &r.P50 },
		func(r *row) *float64 { return &r.P95 }, func(r *row) *float64 { return &r.P99 },
		func(r *row) *float64 { return &r.Max }, func(r *row) *float64 { return &r.Commands },
		func(r *row) *float64 { return &r.Unfair }, func(r *row) *float64 { return &r.Possible },
		func(r *row) *float64 { return &r.Heap }, func(r *row) *float64 { return &r.CPU }, func(r *row) *float64 { return &r.Routines }, func(r *row) *float64 { return &r.Rate },
	} {
		of(column)
	}
	m.Timeouts = 0
	m.waits = make(histogram)
	for _, r := range rs {
		m.Timeouts += r.Timeouts // of all rounds: one is too many
		m.waits.merge(r.waits)
	}
	return m
}
