package testserver

import (
	"errors"
	"os"
	"reflect"
	"sync"
	"testing"
)

// shared holds the servers that all tests of one binary use.
var shared = sharedServers{running: map[reflect.Type]ender{}}

type ender interface{ end() }

type sharedServers struct {
	mu      sync.Mutex
	main    bool // Main runs, and will stop what is started here
	running map[reflect.Type]ender
	dirs    []string
}

// share returns the one shared server of its type; the first call starts it in a directory that is removed at the end.
func share[S ender](tb testing.TB, start func(dir string) (S, error)) S {
	tb.Helper()
	s, err := shared.get(reflect.TypeFor[S](), func(dir string) (ender, error) { return start(dir) })
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	return s.(S)
}

func (s *sharedServers) get(kind reflect.Type, start func(dir string) (ender, error)) (ender, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if running, ok := s.running[kind]; ok {
		return running, nil
	}
	if !s.main {
		return nil, errors.New("a shared server needs testserver.Main in TestMain, which stops it")
	}
	dir, err := os.MkdirTemp("", "fencelock-")
	if err != nil {
		return nil, err
	}
	s.dirs = append(s.dirs, dir)
	server, err := start(dir)
	if err != nil {
		return nil, err
	}
	s.running[kind] = server
	return server, nil
}

func (s *sharedServers) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for kind, server := range s.running {
		server.end()
		delete(s.running, kind)
	}
	for _, dir := range s.dirs {
		_ = os.RemoveAll(dir)
	}
}

// lend returns the process for a test that may not harm it. own is what starts one that it may.
func (p *Process) lend(tb testing.TB, own string) *Process {
	return &Process{tb: tb, foreign: "it is shared, use " + own, command: p.command, log: p.log}
}

// foreign stands for the process of a server that comes from the environment.
func foreign(tb testing.TB, env string) *Process {
	return &Process{tb: tb, foreign: "it comes from " + env}
}
