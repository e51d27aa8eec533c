package testserver

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main is the body of TestMain in packages that use this one: it runs the worker that the process was started for, or
// else the tests; then it stops the shared servers and fails if a goroutine is left. It does not return.
func Main(m *testing.M, opts ...goleak.Option) {
	if name := os.Getenv(workerEnv); name != "" {
		os.Exit(runWorker(name))
	}
	shared.mu.Lock()
	shared.main = true
	shared.mu.Unlock()
	code := m.Run()
	shared.stop()
	if code == 0 {
		if err := goleak.Find(opts...); err != nil {
			fmt.Fprintf(os.Stderr, "testserver: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}
