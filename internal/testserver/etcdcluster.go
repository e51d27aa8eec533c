package testserver

import "testing"

// Etcds is a cluster of three members.
type Etcds struct {
	tb      testing.TB
	Members []*Etcd
}

// EtcdCluster starts a cluster of three. args are those of StartEtcd.
func EtcdCluster(tb testing.TB, args ...string) *Etcds {
	tb.Helper()
	return &Etcds{tb, startEtcds(tb, 3, args)}
}

// Addrs returns the host:port of all members.
func (c *Etcds) Addrs() (addrs []string) {
	for _, e := range c.Members {
		addrs = append(addrs, e.Addr())
	}
	return addrs
}

// Leader waits until all members that answer agree on the one of them that leads, and returns it.
func (c *Etcds) Leader() (leader *Etcd) {
	c.tb.Helper()
	ok := poll(startTime, func() bool {
		known, ids := map[string]bool{}, map[string]*Etcd{}
		for _, e := range c.Members {
			if e.Alive() {
				known[e.leader()], ids[e.id()] = true, e
			}
		}
		delete(known, "")
		for id := range known {
			leader = ids[id]
		}
		return len(known) == 1 && leader != nil
	})
	if !ok {
		c.tb.Fatalf("testserver: no leader after %v", startTime)
	}
	return leader
}

// Follower returns a member that runs and does not lead.
func (c *Etcds) Follower() *Etcd {
	c.tb.Helper()
	leader := c.Leader()
	for _, e := range c.Members {
		if e != leader && e.Alive() {
			return e
		}
	}
	c.tb.Fatal("testserver: no follower runs")
	return nil
}
