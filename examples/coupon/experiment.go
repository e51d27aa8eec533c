package main

import (
	"context"
	"errors"
	"io"
	"sync"
)

// experiment runs all scenarios with all fences and returns a row for each.
func experiment(ctx context.Context, s *settings, log io.Writer) (rows []row, err error) {
	start, stop, err := s.provider(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	dismiss, err := s.findKeeper(log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dismiss()) }()
	for _, c := range s.Scenarios {
		line := startProgress(log, c.name, s.fences(c))
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
	fences := s.fences(c)
	rows, errs := make([]row, len(fences)), make([]error, len(fences))
	var all, starting sync.WaitGroup
	starting.Add(len(fences))
	for i, fence := range fences {
		isUp := sync.OnceFunc(starting.Done)
		one := func() {
			defer isUp()
			rows[i], errs[i] = s.runOne(ctx, c, fence, start, func(b *buyers) {
				isUp()
				if !c.alone {
					starting.Wait() // starting processes does keep a machine busy
				}
				line.started(fence, b)
			})
		}
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

func (s *settings) runOne(ctx context.Context, c scenario, fence fenceKind, start provider, started func(*buyers)) (_ row, err error) {
	shared, err := start(ctx)
	if err != nil {
		return row{}, err
	}
	defer func() { err = errors.Join(err, shared.close()) }()
	r := &run{settings: *s, scenario: c, fence: fence, servers: shared}
	return r.do(ctx, started)
}
