package redlock

import (
	"context"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/redisnode"
)

// grave is an attempt that a node is to give up.
type grave struct {
	key, attempt string
	last         fencelock.Token // of its block
	broken       bool
}

// chore is what a node has still to be told.
type chore struct {
	redisnode.Call
	until time.Time // then it is of no use any more: the lock has expired
}

func (g grave) call() redisnode.Call {
	args := []string{g.attempt, g.last.String(), lessDay(g.last), millis(grace)}
	if g.broken {
		args = append(args, "broken")
	}
	return redisnode.Call{Script: releaseScript, Keys: keysOf(g.key), Args: args}
}

// janitor keeps telling a node that did not answer. Without it a late success
// at a slow node would be an orphan until its TTL ends. However many chores
// there are, one goroutine works, and only while there are some.
type janitor struct {
	node    *redisnode.Node
	crew    *crew
	timeout time.Duration // of one call

	mu     sync.Mutex
	chores []chore
	works  bool
}

const (
	janitorMin   = 10 * time.Millisecond // pause after a failure
	janitorMax   = 250 * time.Millisecond
	janitorBatch = 256
)

func (j *janitor) add(c chore) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.chores = append(j.chores, c)
	if !j.works {
		j.works = true
		j.crew.spawn(j.work)
	}
}

// work tries one chore until the node answers, then the others in batches.
func (j *janitor) work() {
	pause, size := janitorMin, 1
	for {
		batch := j.next(size)
		if len(batch) == 0 {
			return
		}
		failed := j.do(batch)
		if len(failed) == 0 {
			pause, size = janitorMin, janitorBatch
			continue
		}
		j.mu.Lock()
		j.chores = append(j.chores, failed...)
		j.mu.Unlock()
		time.Sleep(pause)
		pause, size = min(2*pause, janitorMax), 1
	}
}

// next takes out chores that are still worth it. If there are none, the work is
// over.
func (j *janitor) next(n int) (batch []chore) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	taken := 0
	for _, c := range j.chores {
		if len(batch) == n {
			break
		}
		taken++
		if now.Before(c.until) {
			batch = append(batch, c)
		}
	}
	j.chores = j.chores[taken:]
	if len(batch) == 0 {
		j.chores, j.works = nil, false
	}
	return batch
}

// do returns the chores that the node did not confirm.
func (j *janitor) do(batch []chore) (failed []chore) {
	calls := make([]redisnode.Call, len(batch))
	for i, c := range batch {
		calls[i] = c.Call
	}
	ctx, cancel := context.WithTimeout(context.Background(), j.timeout)
	defer cancel()
	for i, res := range j.node.RunAll(ctx, calls) {
		if _, err := standingOf(res); err != nil {
			failed = append(failed, batch[i])
		}
	}
	return failed
}
