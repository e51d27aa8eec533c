// Package redlock keeps locks on a majority of independent Redis servers, so
// that they outlive the loss of a minority, with fencing tokens and without any
// service but the nodes.
//
// It is Redlock (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/)
// with one addition. An attempt proposes a block of tokens, and a node
// accepts it only if it lies strictly above all that the node has accepted
// before for that name. An attempt that a majority has accepted with the same
// block holds the lock and those tokens. Any two grants share a node, so the
// later one has the greater tokens, whatever clocks, networks and pauses do. In
// the usual case this is the same single round trip. docs/redlock-fence.md has the
// proof, and what was done to refute it.
//
//	nodes := []redis.UniversalClient{a, b, c}
//	locker, err := redlock.New(nodes, fencelock.TTL(10*time.Second))
//	…
//	err = fencelock.WithLock(ctx, locker, "invoices/2026-11", write)
//
// What it needs: an odd number of masters that fail independently and have no
// replicas to fail over to. Each node's memory of the tokens must survive its
// restart, which takes appendfsync always; where it is lost, only the clients'
// clocks keep the tokens rising. A node that evicts keys forgets locks.
//
// Waiters are woken one at a time, by publish/subscribe on any node, roughly in
// the order in which their processes came; where messages get lost they poll.
//
// Keys. The lock is a plain string at exactly prefix+name, as other Redlock
// clients keep it, who see and respect it. Beside it, in the same hash slot, stands
// a hash with the counter, which lives for seven days beyond the last token. Names
// whose keys have the form of such a hash are refused.
package redlock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/option"
	"github.com/fencelock/fencelock/internal/redisnode"
)

// Locker hands out locks that are kept on a majority of the nodes. It is a
// fencelock.Locker and safe for concurrent use; one process needs one.
type Locker struct {
	eng    *lease.Locker
	driver *driver
}

var _ fencelock.Locker = (*Locker)(nil)

type (
	tokensKey  struct{}
	timeoutKey struct{}
)

// Tokens takes the fencing tokens from source instead of the nodes, for those
// who have a counter already. Each grant then costs a call of source and one
// more round trip to the nodes, and carries a single token, so locks are
// not passed between the goroutines of a process. A token that was minted after the
// validity of its lock had ended, or after a majority had let the lock go, is
// discarded with its grant, since it would give an older holder a greater token than a
// younger one. For New only.
func Tokens(source fencelock.TokenSource) fencelock.Option {
	return func(s *option.Set) { s.Put(tokensKey{}, source) }
}

// NodeTimeout is how long an attempt or a renewal waits for a node that does not
// answer, before it goes on without it; the default is 2 seconds, at most three
// quarters of the TTL. A majority that answers sooner is not kept waiting for the others, and
// a node that has not answered the last time gets a tenth. For New only.
func NodeTimeout(d time.Duration) fencelock.Option {
	return func(s *option.Set) { s.Put(timeoutKey{}, d) }
}

const (
	defTimeout = 2 * time.Second
	identify   = time.Second // for the nodes to say who they are
)

// New returns a Locker over clients, one for each independent node. Their number
// is odd; a single node makes sense in tests only. The clients stay the caller's
// and are never closed. Nodes that cannot be reached now may come later.
//
// It refuses an even number of nodes, a nil client and a node that is
// given twice, which it tells by the server's run_id, or by its address where the server
// does not say. For that it waits at most a second.
func New(clients []redis.UniversalClient, opts ...fencelock.Option) (*Locker, error) {
	set, err := lease.Settings("redlock", opts, tokensKey{}, timeoutKey{})
	if err != nil {
		return nil, err
	}
	if len(clients)%2 == 0 {
		return nil, fmt.Errorf("fencelock: redlock.New: %d nodes: the number must be odd, or no majority would be left when half of them fail", len(clients))
	}
	d := &driver{timeout: defTimeout, ttl: set.TTL, prefix: set.Prefix, suspects: make([]atomic.Bool, len(clients))}
	if v := set.Own(timeoutKey{}); v != nil {
		if d.timeout = v.(time.Duration); d.timeout <= 0 {
			return nil, fmt.Errorf("fencelock: redlock.New: NodeTimeout(%v) is not positive", d.timeout)
		}
	}
	if _, ok := set.Keys()[tokensKey{}]; ok {
		if d.source, _ = set.Own(tokensKey{}).(fencelock.TokenSource); d.source == nil {
			return nil, errors.New("fencelock: redlock.New: Tokens(nil)")
		}
	}
	for i, client := range clients {
		node, err := redisnode.New(client)
		if err != nil {
			return nil, fmt.Errorf("fencelock: redlock.New: node %d: %w", i, err)
		}
		d.nodes = append(d.nodes, node)
		d.janitors = append(d.janitors, &janitor{node: node, crew: &d.crew, timeout: d.timeout})
	}
	if err := distinct(clients, d.nodes); err != nil {
		return nil, fmt.Errorf("fencelock: redlock.New: %w", err)
	}
	var id [8]byte
	rand.Read(id[:])
	d.turns = turns{driver: d, id: hex.EncodeToString(id[:])}
	return &Locker{eng: lease.New(d, set), driver: d}, nil
}

// distinct refuses a node that is given twice: its vote would count twice.
func distinct(clients []redis.UniversalClient, nodes []*redisnode.Node) error {
	ctx, cancel := context.WithTimeout(context.Background(), identify)
	defer cancel()
	ids := make([]string, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { ids[i] = n.RunID(ctx) })
	}
	wg.Wait()
	for i := range nodes {
		for j := range i {
			switch {
			case clients[i] == clients[j]:
				return fmt.Errorf("nodes %d and %d are the same client", j, i)
			case ids[i] != "" && ids[i] == ids[j]:
				return fmt.Errorf("nodes %d and %d are the same server, run_id %s", j, i, ids[i])
			case (ids[i] == "" || ids[j] == "") && nodes[i].Addr() != "" && nodes[i].Addr() == nodes[j].Addr():
				return fmt.Errorf("nodes %d and %d have the same address, %s", j, i, nodes[i].Addr())
			}
		}
	}
	return nil
}

// Acquire waits until it holds name, see fencelock.Locker.
func (l *Locker) Acquire(ctx context.Context, name string, opts ...fencelock.Option) (fencelock.Lock, error) {
	if err := l.check(name); err != nil {
		return nil, err
	}
	return l.eng.Acquire(ctx, name, opts...)
}

// TryAcquire makes one attempt to hold name, see fencelock.Locker.
func (l *Locker) TryAcquire(ctx context.Context, name string, opts ...fencelock.Option) (fencelock.Lock, error) {
	if err := l.check(name); err != nil {
		return nil, err
	}
	return l.eng.TryAcquire(ctx, name, opts...)
}

// check refuses the names that would meet another name's counter.
func (l *Locker) check(name string) error {
	if key := l.eng.Key(name); redisnode.IsSibling(key, companion) {
		return fmt.Errorf("fencelock: the name %.40q makes the key of another lock's counter", name)
	}
	return nil
}

// Close ends the waits of Acquire, tells the holds that they are lost (reason
// fencelock.Closed), releases them, and waits until ctx ends for all clean-ups,
// which take up to the TTL where a node does not answer. It does not close the
// clients. Further calls wait again.
func (l *Locker) Close(ctx context.Context) error {
	err := l.eng.Close(ctx)
	if err := l.driver.close(ctx); err != nil {
		return fmt.Errorf("fencelock: redlock: clean-up goes on: %w", err)
	}
	return err
}

func (d *driver) close(ctx context.Context) error {
	if err := d.crew.wait(ctx); err != nil {
		return err
	}
	if err := d.Idle(ctx); err != nil {
		return err
	}
	for _, n := range d.nodes {
		if err := n.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}
