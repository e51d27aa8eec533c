package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/testserver"
)

// realServers starts one PostgreSQL for all runs and, for each run, three
// redis-servers whose clocks can be stepped.
func realServers(ctx context.Context) (provider, func() error, error) {
	postgres, err := startPostgres(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := execute(ctx, postgres.url, createTables); err != nil {
		return nil, nil, errors.Join(err, postgres.stop())
	}
	start := func(context.Context) (*servers, error) {
		s, m := &servers{database: postgres.url}, &machine{}
		var nodes []*testserver.Redis
		s.close = func() error { return m.try(m.cleanUp) }
		err := m.try(func() {
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
			return m.try(func() {
				for _, n := range nodes[:stepped] {
					n.StepClock(d)
				}
			})
		}
		return s, nil
	}
	return start, postgres.stop, nil
}

// machine stands in for the test that testserver wants to start servers for.
type machine struct {
	testing.TB // of which testserver uses the methods below

	mu       sync.Mutex
	cleanups []func()
}

type machineError struct{ error }

// try calls f and returns the error with which testserver gives up.
func (m *machine) try(f func()) (err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case machineError:
			err = e.error
		default:
			panic(e)
		}
	}()
	f()
	return nil
}

func (m *machine) Helper()                        {}
func (m *machine) Failed() bool                   { return false }
func (m *machine) Logf(string, ...any)            {}
func (m *machine) Skipf(format string, a ...any)  { panic(machineError{fmt.Errorf(format, a...)}) }
func (m *machine) Fatalf(format string, a ...any) { panic(machineError{fmt.Errorf(format, a...)}) }

func (m *machine) Cleanup(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cleanups = append(m.cleanups, f)
}

func (m *machine) cleanUp() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.cleanups) > 0 {
		last := len(m.cleanups) - 1
		f := m.cleanups[last]
		m.cleanups = m.cleanups[:last]
		f()
	}
}
