package redisnode

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	maxFlights = 3                      // pipelines in flight; more only cost system calls
	maxBatch   = 256                    // commands of one pipeline
	overdue    = 100 * time.Millisecond // after which a flight no longer keeps others waiting
)

// lane leads to one server. Calls gather in its queue only while maxFlights
// pipelines are in flight; a lone call is sent at once.
type lane struct {
	node *Node

	direct *redis.Client // nil: see direct.go
	calm   atomic.Bool   // the last trip was quick

	mu      sync.Mutex
	queue   []*job
	flights map[*flight]struct{} // those not overdue
	watch   *time.Timer          // armed while jobs queue
}

// flight is a goroutine that sends pipelines, one after the other.
type flight struct{ sent time.Time }

// submit sends jobs on their way.
func (n *Node) submit(jobs ...*job) {
	switch {
	case n.cluster != nil:
		// Finding the master may load the cluster's map over the network.
		n.Go(func() {
			for _, j := range jobs {
				n.laneOf(j).submit(j)
			}
		})
	case n.Sharded():
		for _, j := range jobs {
			n.Go(func() {
				if j.take() {
					n.send([]*job{j})
				}
			})
		}
	default:
		n.laneTo(n.client).submit(jobs...)
	}
}

// laneOf returns the lane to the master of the job's slot, so that one stuck
// node of a cluster does not delay the calls of others.
func (n *Node) laneOf(j *job) *lane {
	master, err := n.cluster.MasterForKey(context.WithoutCancel(j.ctx), j.Keys[0])
	if err != nil {
		return n.laneTo(n.cluster) // the call itself will report it
	}
	return n.laneTo(master)
}

func (n *Node) laneTo(server any) *lane {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.lanes[server]
	if l == nil {
		l = &lane{node: n, flights: make(map[*flight]struct{}), direct: impatient(server)}
		n.lanes[server] = l
	}
	return l
}

func (l *lane) submit(jobs ...*job) {
	l.mu.Lock()
	l.queue = append(l.queue, jobs...)
	l.launch()
	l.mu.Unlock()
}

// launch starts a flight for what is queued, or waits for one to come back. The
// caller holds mu.
func (l *lane) launch() {
	for len(l.queue) > 0 && len(l.flights) < maxFlights {
		f, batch := &flight{sent: time.Now()}, l.next()
		if len(batch) == 0 {
			return
		}
		l.flights[f] = struct{}{}
		l.node.begin()
		go l.fly(f, batch)
	}
	if len(l.queue) > 0 && l.watch == nil {
		l.watch = time.AfterFunc(overdue, l.relieve)
	}
}

// next takes a batch from the queue. The caller holds mu.
func (l *lane) next() []*job {
	var batch []*job
	for i, j := range l.queue {
		if len(batch) == maxBatch {
			l.queue = append([]*job(nil), l.queue[i:]...)
			return batch
		}
		if j.take() {
			batch = append(batch, j)
		}
	}
	l.queue = nil
	return batch
}

// fly sends batches until nothing is queued, or until it is overdue and others
// fly in its place.
func (l *lane) fly(f *flight, batch []*job) {
	defer l.node.end()
	for len(batch) > 0 {
		l.node.send(batch)
		l.calm.Store(time.Since(f.sent) < quick)
		l.mu.Lock()
		if _, ok := l.flights[f]; !ok {
			l.mu.Unlock()
			return
		}
		if batch = l.next(); len(batch) == 0 {
			delete(l.flights, f)
		}
		f.sent = time.Now()
		l.mu.Unlock()
	}
}

// relieve lets new flights start in place of the overdue ones, so that a hung
// connection does not hold up the queue.
func (l *lane) relieve() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch = nil
	for f := range l.flights {
		if time.Since(f.sent) >= overdue {
			delete(l.flights, f)
		}
	}
	l.launch()
}

// send makes one round trip for a batch, and a second one with the text of the
// scripts that the server did not know.
func (n *Node) send(batch []*job) {
	if unknown := n.trip(batch); len(unknown) > 0 {
		n.trip(unknown)
	}
}

// trip sends batch and ends its jobs, except those whose script the server does
// not know.
func (n *Node) trip(batch []*job) (unknown []*job) {
	if len(batch) == 1 {
		j := batch[0]
		cmd := j.cmd()
		err := n.client.Process(context.WithoutCancel(j.ctx), cmd)
		if j.unknown(err) {
			return batch
		}
		j.result.Value, j.result.Err = cmd.Val(), err
		j.end()
		return nil
	}
	pipe := n.client.Pipeline()
	cmds := make([]interface {
		Val() any
		Err() error
	}, len(batch))
	for i, j := range batch {
		cmd := j.cmd()
		cmds[i] = cmd
		_ = pipe.Process(context.Background(), cmd)
	}
	_, failed := pipe.Exec(context.Background())
	for i, j := range batch {
		val, err := cmds[i].Val(), cmds[i].Err()
		if err == nil && val == nil {
			err = failed // a pipeline that got no connection sets no command's error
		}
		if j.unknown(err) {
			unknown = append(unknown, j)
			continue
		}
		j.result.Value, j.result.Err = val, err
		j.end()
	}
	return unknown
}
