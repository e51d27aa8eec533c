// Command coupon sells coupons, first come first served, under a distributed
// lock, and lets you watch the lock fail and the fence save the sale.
//
// Several processes of one shop share a Redlock over three Redis nodes and a
// database. In the scenario "clock-step" the clocks of two nodes jump, in
// "pause" the process that holds the lock is stopped; either way two requests
// are in the critical section at once. Without a fence the shop then answers
// 200 to buyers who own nothing: phantom coupons.
//
// Start reading at sell.go.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
)

func main() {
	if config, ok := os.LookupEnv(shopEnv); ok {
		os.Exit(runShop(config))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		os.Exit(2)
	}
	rows, err := experiment(ctx, s, os.Stderr)
	if err := print(os.Stdout, s, rows); err != nil {
		fmt.Fprintln(os.Stderr, "coupon:", err)
		os.Exit(1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "coupon:", err)
	}
	wrong := 0
	for _, r := range rows {
		for _, w := range r.check() {
			fmt.Fprintln(os.Stderr, "WRONG:", w)
			wrong++
		}
	}
	if err != nil || wrong > 0 {
		os.Exit(1)
	}
}

func print(w io.Writer, s *settings, rows []row) error {
	if !s.JSON {
		return printTable(w, rows)
	}
	out := json.NewEncoder(w)
	for _, r := range rows {
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// experiment runs all scenarios with all fences and returns a row for each.
func experiment(ctx context.Context, s *settings, log io.Writer) (rows []row, err error) {
	start, stop, err := s.provider()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, c := range s.Scenarios {
		line := startProgress(log, c.name)
		some, err := s.runAll(ctx, c, start, line)
		line.end()
		rows = append(rows, some...)
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// runAll runs one scenario with all fences, at the same time if it measures no
// throughput: a shop that sleeps 200 ms for each coupon keeps no machine busy.
func (s *settings) runAll(ctx context.Context, c scenario, start provider, line *progress) ([]row, error) {
	rows, errs := make([]row, len(s.Fences)), make([]error, len(s.Fences))
	var all sync.WaitGroup
	for i, fence := range s.Fences {
		one := func() { rows[i], errs[i] = s.runOne(ctx, c, fence, start, line) }
		if c.alone {
			one()
		} else {
			all.Go(one)
		}
	}
	all.Wait()
	var done []row
	for i, err := range errs {
		if err == nil {
			done = append(done, rows[i])
		}
	}
	return done, errors.Join(errs...)
}

func (s *settings) runOne(ctx context.Context, c scenario, fence fenceKind, start provider, line *progress) (_ row, err error) {
	shared, err := start()
	if err != nil {
		return row{}, err
	}
	defer func() { err = errors.Join(err, shared.close()) }()
	r := &run{settings: *s, scenario: c, fence: fence, servers: shared}
	return r.do(ctx, func(b *buyers) { line.add(fence, b) })
}
