// Package machine starts servers from the machine's own programs for a command, as
// internal/testserver does for a test.
package machine

import (
	"fmt"
	"sync"
	"testing"

	"github.com/fencelock/fencelock/internal/testserver"
)

// Machine stands in for the test that testserver wants to start servers for. Its
// zero value is ready.
type Machine struct {
	testing.TB // of which testserver uses the methods below

	mu       sync.Mutex
	cleanups []func()
}

type failure struct{ error }

// Try calls f and returns the error with which testserver gives up.
func (m *Machine) Try(f func()) (err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case failure:
			err = e.error
		default:
			panic(e)
		}
	}()
	f()
	return nil
}

// Stop ends all servers that were started for m.
func (m *Machine) Stop() error {
	return m.Try(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for len(m.cleanups) > 0 {
			last := len(m.cleanups) - 1
			f := m.cleanups[last]
			m.cleanups = m.cleanups[:last]
			f()
		}
	})
}

// Postgres returns the URL of a PostgreSQL that runs until stop is called: the
// given one, which stop leaves alone, or a throw-away if url is empty.
func Postgres(url string) (_ string, stop func() error, err error) {
	if url != "" {
		return url, func() error { return nil }, nil
	}
	return serve(func(m *Machine) string { return testserver.StartPostgres(m).URL() })
}

// ZooKeeper returns the host:port of a ZooKeeper that runs until stop is called.
func ZooKeeper() (addr string, stop func() error, err error) {
	return serve(func(m *Machine) string { return testserver.StartZooKeeper(m).Addr() })
}

func serve(start func(*Machine) string) (at string, stop func() error, err error) {
	m := &Machine{}
	if err := m.Try(func() { at = start(m) }); err != nil {
		_ = m.Stop()
		return "", nil, err
	}
	return at, m.Stop, nil
}

// Helper, Failed and the others are what testserver calls.
func (m *Machine) Helper() {}

// Failed is false: nobody asks for the servers' logs.
func (m *Machine) Failed() bool { return false }

// Logf says nothing.
func (m *Machine) Logf(string, ...any) {}

// Skipf makes Try return an error: a program is missing.
func (m *Machine) Skipf(format string, a ...any) { panic(failure{fmt.Errorf(format, a...)}) }

// Fatalf makes Try return an error.
func (m *Machine) Fatalf(format string, a ...any) { panic(failure{fmt.Errorf(format, a...)}) }

// Cleanup has f called by Stop.
func (m *Machine) Cleanup(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cleanups = append(m.cleanups, f)
}
