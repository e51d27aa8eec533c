// Package redisnode is what the backends redis and redlock share about one
// Redis endpoint: running scripts, listening for messages, and asking what kind
// of server it is.
//
//	node, err := redisnode.New(client)          // refuses nil
//	res, err := node.Run(ctx, script, keys, args...)
//	results := node.RunAll(ctx, calls)          // one Result per Call, in their order
//	stop, err := node.Subscribe(ctx, channel, f)
//	node.Idle(ctx); node.Wait(ctx)              // end the connection; wait for abandoned calls
//
// A Node never touches the options of the caller's client and never closes it.
// Its calls return when their ctx ends, whatever the network does, although
// go-redis does not interrupt a read; the abandoned call goes on, bounded by
// the client's own time-outs.
package redisnode

import (
	"context"
	"errors"
	"reflect"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Client is what a Node needs of the caller's client. *redis.Client (also a
// Sentinel one), *redis.ClusterClient and every redis.UniversalClient are
// Clients.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// Node is one endpoint. It is safe for concurrent use.
type Node struct {
	client  Client
	cluster *redis.ClusterClient // nil unless the client is one
	sub     subscriber

	mu      sync.Mutex
	lanes   map[any]*lane // by what they lead to: the client, or a cluster's master
	running int           // goroutines
	idle    chan struct{} // closed when running becomes 0; nil if nobody waits
}

// New returns a Node for client, which stays the caller's.
func New(client Client) (*Node, error) {
	if v := reflect.ValueOf(client); client == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("the redis client is nil")
	}
	n := &Node{client: client, lanes: make(map[any]*lane)}
	n.cluster, _ = client.(*redis.ClusterClient)
	n.sub.node = n
	return n, nil
}

// Cluster reports whether the client is a cluster client: a PUBLISH then counts
// the receivers of one node only, and keys of one script must share a slot.
func (n *Node) Cluster() bool { return n.cluster != nil }

// Sharded reports whether the client spreads keys over servers that know
// nothing of each other (a redis.Ring): messages published by a script may not
// reach a subscription.
func (n *Node) Sharded() bool {
	_, ring := n.client.(*redis.Ring)
	return ring
}

// Wait waits until no call and no goroutine of the Node is running, or ctx ends.
func (n *Node) Wait(ctx context.Context) error {
	n.mu.Lock()
	if n.running == 0 {
		n.mu.Unlock()
		return nil
	}
	if n.idle == nil {
		n.idle = make(chan struct{})
	}
	idle := n.idle
	n.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Go runs f in a goroutine that Wait waits for.
func (n *Node) Go(f func()) {
	n.begin()
	go func() {
		defer n.end()
		f()
	}()
}

func (n *Node) begin() {
	n.mu.Lock()
	n.running++
	n.mu.Unlock()
}

func (n *Node) end() {
	n.mu.Lock()
	n.running--
	if n.running == 0 && n.idle != nil {
		close(n.idle)
		n.idle = nil
	}
	n.mu.Unlock()
}
