package redisnode

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	quick    = 10 * time.Millisecond // a trip that gives hope that the next one is as quick
	patience = 40 * time.Millisecond // for a direct call; a ctx is obeyed so much late at most
)

// A lone call runs in its caller's goroutine, since handing it over and back
// costs as much as a tenth of a round trip, and more on a busy machine. As
// go-redis does not interrupt a read when a ctx ends, it does so only on a server
// that was quick the last time, and with little patience: a reply that is late
// is given up, with its connection, and the script, which is idempotent, is sent
// again the usual way.

// impatient returns a client with the same connections as server and short
// time-outs, or nil if server cannot have one.
func impatient(server any) *redis.Client {
	c, ok := server.(*redis.Client)
	if !ok {
		return nil
	}
	if t := c.Options().ReadTimeout; t > 0 && t < patience {
		return nil
	}
	return c.WithTimeout(patience)
}

// direct runs j in this goroutine if that promises well, and reports whether it
// has a result.
func (n *Node) direct(j *job) bool {
	if n.cluster != nil || n.Sharded() || j.Script.once {
		return false
	}
	l := n.laneTo(n.client)
	// Without an idle connection it would have to dial.
	if l.direct == nil || !l.calm.Load() || l.direct.PoolStats().IdleConns == 0 {
		return false
	}
	l.mu.Lock()
	if len(l.flights) > 0 || len(l.queue) > 0 {
		l.mu.Unlock()
		return false
	}
	f := &flight{sent: time.Now()}
	l.flights[f] = struct{}{}
	l.mu.Unlock()
	n.begin()
	defer n.end()

	cmd := j.cmd()
	err := l.direct.Process(&untilSent{Context: j.ctx, job: j}, cmd)
	l.calm.Store(time.Since(f.sent) < quick)

	l.mu.Lock()
	delete(l.flights, f)
	l.launch()
	l.mu.Unlock()

	var answer redis.Error
	switch {
	case j.unknown(err):
		return false
	case err == nil, errors.As(err, &answer):
		j.result.Value, j.result.Err = cmd.Val(), err
	case j.ctx.Err() != nil:
		j.result.Err = j.ctx.Err()
	default:
		j.resent = !j.result.Sent.IsZero()
		return false
	}
	return true
}

// untilSent is a ctx that ends when its job has been written, so that the
// client does not try again by itself.
type untilSent struct {
	context.Context
	job *job
}

var over = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (c *untilSent) Done() <-chan struct{} {
	if c.job.result.Sent.IsZero() {
		return c.Context.Done()
	}
	return over
}

func (c *untilSent) Err() error {
	if c.job.result.Sent.IsZero() {
		return c.Context.Err()
	}
	return context.Canceled
}
