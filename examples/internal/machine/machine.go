// Package machine starts servers from the machine's own programs for a command, as
// internal/testserver does for a test.
package machine

import "github.com/fencelock/fencelock/internal/testserver"

// Postgres returns the URL of a PostgreSQL that runs until stop is called: the
// given one, which stop leaves alone, or a throw-away if url is empty.
func Postgres(url string) (_ string, stop func() error, err error) {
	if url != "" {
		return url, func() error { return nil }, nil
	}
	return serve(func(m *testserver.Machine) string { return testserver.StartPostgres(m).URL() })
}

// ZooKeeper returns the host:port of a ZooKeeper that runs until stop is called.
func ZooKeeper() (addr string, stop func() error, err error) {
	return serve(func(m *testserver.Machine) string { return testserver.StartZooKeeper(m).Addr() })
}

func serve(start func(*testserver.Machine) string) (at string, stop func() error, err error) {
	m := &testserver.Machine{}
	if err := m.Try(func() { at = start(m) }); err != nil {
		_ = m.Stop()
		return "", nil, err
	}
	return at, m.Stop, nil
}
