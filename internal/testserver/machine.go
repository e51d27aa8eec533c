package testserver

import (
	"fmt"
	"sync"
	"testing"
)

// Machine stands in for the test that servers are started for, in commands that
// need some. Its zero value is ready.
type Machine struct {
	testing.TB // of which this package uses the methods below

	mu       sync.Mutex
	cleanups []func()
}

type failure struct{ error }

// Try calls f and returns the error with which this package gives up.
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

// Helper, Failed and the others are what this package calls.
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
