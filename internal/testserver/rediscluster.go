package testserver

import (
	"strconv"
	"testing"
)

const (
	clusterSize  = 3
	clusterSlots = 16384
)

// Cluster is a Redis Cluster of three masters without replicas.
type Cluster struct {
	Nodes []*Redis
	tb    testing.TB
}

// RedisCluster starts a cluster and waits until all of its nodes serve (two seconds, which Redis waits itself). A node
// that is down takes its own slots with it, not the others'. args are given to all nodes.
func RedisCluster(tb testing.TB, args ...string) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb}
	for i := range clusterSize {
		n := startClusterNode(tb, args)
		c.Nodes = append(c.Nodes, n)
		first, end := i*clusterSlots/clusterSize, (i+1)*clusterSlots/clusterSize
		n.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(end-1))
		n.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i > 0 {
			host, port := hostPort(c.Nodes[0].Addr())
			n.Do("CLUSTER", "MEET", host, port, c.Nodes[0].busPort)
		}
	}
	for _, n := range c.Nodes {
		if !poll(startTime, func() bool { return clusterReady(n) }) {
			tb.Fatalf("testserver: no cluster: %v", n.Do("CLUSTER", "INFO"))
		}
	}
	return c
}

// Addrs returns host:port of each node.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Addr())
	}
	return addrs
}

// Node returns the node that owns a key.
func (c *Cluster) Node(key string) *Redis {
	c.tb.Helper()
	slot := int(c.Nodes[0].Do("CLUSTER", "KEYSLOT", key).(int64))
	for i, n := range c.Nodes {
		if slot < (i+1)*clusterSlots/clusterSize {
			return n
		}
	}
	return nil
}

func clusterReady(n *Redis) bool {
	v, err := n.Try("CLUSTER", "INFO")
	f := fields(v)
	return err == nil && f["cluster_state"] == "ok" && f["cluster_slots_ok"] == strconv.Itoa(clusterSlots) &&
		f["cluster_known_nodes"] == strconv.Itoa(clusterSize)
}
