package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/fencelock/fencelock/internal/testserver"
)

// contender is a way to lock.
type contender struct {
	who  string
	kind string // of server, and which of them: redis, redlock-5, pg
	peer bool   // not ours
	// floor: it locks without waiting, for what a pair of round trips costs.
	floor bool
	open  func(addrs []string) (locker, error)
}

// locker is what a process needs one of.
type locker interface {
	// Lock waits until name is locked or ctx ends.
	Lock(ctx context.Context, name string) (unlock func(context.Context) error, err error)
	Close() error
}

// contenders are all, ours first.
var contenders []contender

func register(c ...contender) { contenders = append(contenders, c...) }

// machine has the servers, which are started when they are first needed.
type machine struct {
	testserver.Machine
	mu      sync.Mutex
	started map[string]server
}

// server is where the contenders of a kind lock.
type server struct {
	addrs    []string
	commands func() int // that it has executed so far, nil if unknown
	missing  error      // why it could not be started
}

func newMachine() *machine { return &machine{started: make(map[string]server)} }

var starters = map[string]func(m *machine) server{}

func (m *machine) server(kind string) server {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.started[kind]
	if !ok {
		if err := m.Try(func() { s = starters[kind](m) }); err != nil {
			s = server{missing: err}
		}
		m.started[kind] = s
	}
	return s
}

// there returns the contenders of the kinds that begin with one of a
// comma-separated list.
func (m *machine) there(kinds string) (there []contender) {
	for _, c := range contenders {
		for kind := range strings.SplitSeq(kinds, ",") {
			if strings.HasPrefix(c.kind, kind) {
				there = append(there, c)
				break
			}
		}
	}
	return there
}

// patience is how long an acquisition may take.
const patience = 2 * time.Second
