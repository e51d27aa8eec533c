package testserver

import (
	"slices"
	"strings"
	"testing"
)

// Pair is a Redis primary and its replica.
type Pair struct {
	Primary, Replica *Redis
	Link             *Proxy // the replica's connection to its primary goes through here
}

// RedisPair starts a primary and a replica that has its first copy. args are given to both.
func RedisPair(tb testing.TB, args ...string) *Pair {
	tb.Helper()
	p := &Pair{Primary: StartRedis(tb, args...)}
	p.Link = NewProxy(tb, p.Primary.Addr())
	_, port := hostPort(p.Link.Addr())
	p.Replica = StartRedis(tb, slices.Concat([]string{"--replicaof", "127.0.0.1 " + port}, args)...)
	p.WaitSynced()
	return p
}

// WaitSynced waits until the replica has everything that the primary has, and the primary counts it as connected. (WAIT
// by Do proves nothing: it is about the writes of its own connection.)
func (p *Pair) WaitSynced() {
	p.Primary.tb.Helper()
	if !poll(startTime, func() bool {
		r := p.Replica.Info("replication") // asked first: what the primary says later is not less
		m := p.Primary.Info("replication")
		return r["master_link_status"] == "up" && r["slave_repl_offset"] == m["master_repl_offset"] &&
			strings.Contains(m["slave0"], "state=online")
	}) {
		p.Primary.tb.Fatalf("testserver: the replica does not follow: %v", p.Replica.Info("replication"))
	}
}

// Promote makes the replica a primary with the data it has. The old primary is not told.
func (p *Pair) Promote() {
	p.Replica.tb.Helper()
	p.Replica.Do("REPLICAOF", "NO", "ONE")
}
