package main

import (
	"context"
	"errors"
	"time"

	"github.com/fencelock/fencelock/examples/internal/machine"
	"github.com/fencelock/fencelock/internal/testserver"
)

// realServers starts one PostgreSQL for all runs and, for each run, three
// redis-servers whose clocks can be stepped.
func realServers(ctx context.Context) (provider, func() error, error) {
	database, stop, err := machine.Postgres("")
	if err != nil {
		return nil, nil, err
	}
	if err := execute(ctx, database, createTables); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	start := func(context.Context) (*servers, error) {
		s, m := &servers{database: database}, &testserver.Machine{}
		var nodes []*testserver.Redis
		s.close = m.Stop
		err := m.Try(func() {
			for range 3 {
				n := testserver.StartRedis(m)
				nodes = append(nodes, n)
				s.redis = append(s.redis, n.Addr())
			}
		})
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.step = func(_ context.Context, _ string, d time.Duration) error {
			return m.Try(func() {
				for _, n := range nodes[:stepped] {
					n.StepClock(d)
				}
			})
		}
		return s, nil
	}
	return start, stop, nil
}
