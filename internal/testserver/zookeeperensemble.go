package testserver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// ZooKeepers is an ensemble of three members.
type ZooKeepers struct {
	tb      testing.TB
	Members []*ZooKeeper

	// links[i][j], if there are any, is on the way from member i, as a follower, to member j, as its leader.
	links [][]*Proxy
}

// ZooKeeperEnsemble starts an ensemble of three. args are those of StartZooKeeper.
func ZooKeeperEnsemble(tb testing.TB, args ...string) *ZooKeepers {
	tb.Helper()
	return startEnsemble(tb, false, args)
}

// LinkedZooKeepers starts an ensemble of three in which a follower can be cut off from its leader. Elections take seconds
// there: a follower that is too early finds a link where it expects a port that is still closed.
func LinkedZooKeepers(tb testing.TB, args ...string) *ZooKeepers {
	tb.Helper()
	return startEnsemble(tb, true, args)
}

func startEnsemble(tb testing.TB, linked bool, args []string) *ZooKeepers {
	tb.Helper()
	const size = 3
	e, java := &ZooKeepers{tb: tb}, javaProgram(tb, zooAdvice)
	quorum, election := make([]int, size), make([]int, size)
	for i := range size {
		quorum[i], election[i] = e.port(), e.port()
	}
	var starting sync.WaitGroup
	errs := make([]error, size)
	for i := range size {
		dir := tempDir(tb)
		if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
			tb.Fatalf("testserver: %v", err)
		}
		if err := os.WriteFile(filepath.Join(dir, "data", "myid"), []byte(strconv.Itoa(i+1)), 0o600); err != nil {
			tb.Fatalf("testserver: %v", err)
		}
		config, links := slices.Clone(args), make([]*Proxy, size)
		if linked {
			config = append([]string{"initLimit=15"}, config...) // ticks that such a follower loses
		}
		for j := range size {
			leader := quorum[j]
			if linked && j != i {
				links[j] = NewProxy(tb, loopback(leader))
				leader = port(links[j].Addr())
			}
			config = append(config, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", j+1, leader, election[j]))
		}
		e.links = append(e.links, links)
		z := &ZooKeeper{addr: loopback(e.port())}
		e.Members = append(e.Members, z)
		c, err := zooCommand(java, dir, port(z.addr), config, func(int) error { return z.ready(dir, "leader", "follower") })
		if err != nil {
			tb.Fatalf("testserver: %v", err)
		}
		starting.Go(func() { z.Process, errs[i] = start(c) })
	}
	starting.Wait()
	for i, z := range e.Members {
		z.endWith(tb)
		if errs[i] != nil {
			tb.Fatalf("testserver: member %d: %v", i, errs[i])
		}
	}
	return e
}

// Addrs returns the host:port of all members.
func (e *ZooKeepers) Addrs() (addrs []string) {
	for _, z := range e.Members {
		addrs = append(addrs, z.Addr())
	}
	return addrs
}

// Leader waits for a leader that serves and returns it.
func (e *ZooKeepers) Leader() *ZooKeeper { e.tb.Helper(); return e.in("leader") }

// Follower waits for a follower that serves and returns it.
func (e *ZooKeepers) Follower() *ZooKeeper { e.tb.Helper(); return e.in("follower") }

func (e *ZooKeepers) in(mode string) (found *ZooKeeper) {
	e.tb.Helper()
	ok := poll(startTime, func() bool {
		for _, z := range e.Members {
			if z.Alive() && z.Mode() == mode {
				found = z
				return true
			}
		}
		return false
	})
	if !ok {
		e.tb.Fatalf("testserver: no %s after %v", mode, startTime)
	}
	return found
}

// CutOff, of LinkedZooKeepers, swallows what the follower says to its leader and what it hears, until Heal: for a while, syncLimit ticks, it
// does not know and answers reads.
func (e *ZooKeepers) CutOff(follower *ZooKeeper) {
	e.each(follower, func(p *Proxy) { p.Drop(Both) })
}

// Heal ends CutOff.
func (e *ZooKeepers) Heal(follower *ZooKeeper) { e.each(follower, (*Proxy).Heal) }

func (e *ZooKeepers) each(follower *ZooKeeper, f func(*Proxy)) {
	e.tb.Helper()
	found := false
	for _, p := range e.links[slices.Index(e.Members, follower)] {
		if p != nil {
			f(p)
			found = true
		}
	}
	if !found {
		e.tb.Fatal("testserver: only LinkedZooKeepers have links")
	}
}

func (e *ZooKeepers) port() int {
	e.tb.Helper()
	p, err := nextPort()
	if err != nil {
		e.tb.Fatalf("testserver: %v", err)
	}
	return p
}
