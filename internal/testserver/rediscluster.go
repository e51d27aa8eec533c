package testserver

import (
	"strconv"
	"strings"
	"testing"
)

const (
	clusterSize  = 3
	clusterSlots = 16384
)

// Cluster is a Redis Cluster of three masters without replicas.
type Cluster struct {
	Nodes []*Redis
}

// RedisCluster starts a cluster and waits until all of its nodes serve (two seconds, which Redis waits itself). A node
// that is down takes its own slots with it, not the others'. args are given to all nodes.
func RedisCluster(tb testing.TB, args ...string) *Cluster {
	tb.Helper()
	c := &Cluster{}
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
	i := 0
	for clusterSlot(key) >= (i+1)*clusterSlots/clusterSize {
		i++
	}
	return c.Nodes[i]
}

// clusterSlot is computed here, since any node may be down. https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/
func clusterSlot(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16 // CRC-16/XMODEM
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if high := crc&0x8000 != 0; high {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % clusterSlots
}

func clusterReady(n *Redis) bool {
	v, err := n.Try("CLUSTER", "INFO")
	f := fields(v)
	return err == nil && f["cluster_state"] == "ok" && f["cluster_slots_ok"] == strconv.Itoa(clusterSlots) &&
		f["cluster_known_nodes"] == strconv.Itoa(clusterSize)
}
