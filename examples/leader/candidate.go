package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/examples/internal/child"
)

// candidateEnv makes this program a candidate; its value is a candidate as JSON.
const candidateEnv = "LEADER_CANDIDATE"

// candidate is one of the processes.
type candidate struct {
	settings
	Name string
	Role string // "batch" or "leader"
}

const tick = 100 * time.Millisecond

// batch runs once, whoever comes first and however often it is started: the
// lock keeps two from running at the same time, the store remembers that it has
// run, and the token keeps a stalled process from saying so too late.
func (c candidate) batch(ctx context.Context, b backend) error {
	return fencelock.WithLock(ctx, b, "batch/2026-11", func(ctx context.Context, token fencelock.Token) error {
		if err := b.admit(ctx, "batch/2026-11", token); err != nil { // before the first read
			return err
		}
		ran, err := b.read(ctx, "batch/2026-11")
		if err != nil {
			return err
		}
		if ran != "" {
			c.say("skipped", token)
			return nil
		}
		select { // the work
		case <-time.After(2 * tick):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := b.write(ctx, "batch/2026-11", token, "ran by "+c.Name); err != nil {
			return err
		}
		c.say("ran", token)
		return nil
	})
}

// lead waits until it is the leader, works as long as it is, and begins anew, until
// ctx ends. A
// leader that was stopped and wakes does not know yet that it is none: it writes,
// and the fence refuses it.
func (c candidate) lead(ctx context.Context, b backend) error {
	for {
		lock, err := b.Acquire(ctx, "leader")
		if err != nil {
			return err
		}
		c.say("leads", lock.Token())
		for n := 1; ; n++ {
			err := b.write(ctx, "leader", lock.Token(), fmt.Sprintf("entry %d of %s", n, c.Name))
			if errors.Is(err, fencelock.ErrStale) {
				c.say("refused", lock.Token())
				break
			}
			if lock.Err() != nil {
				c.say("lost", lock.Token())
				break
			}
			if err == nil {
				c.say("wrote", lock.Token())
			}
			time.Sleep(tick)
		}
		_ = lock.Release(ctx) // it may be lost, or not yet
	}
}

// say prints an event for the parent.
func (c candidate) say(what string, token fencelock.Token) {
	_ = json.NewEncoder(os.Stdout).Encode(event{Process: c.Name, What: what, Token: token})
}

// runCandidate is a process's whole life.
func runCandidate(config []byte) error {
	var c candidate
	if err := json.Unmarshal(config, &c); err != nil {
		return err
	}
	b, err := open(c.settings)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if c.Role == "batch" {
		return errors.Join(c.batch(ctx, b), b.close())
	}
	go func() {
		child.Orphaned()
		cancel()
	}()
	err = c.lead(ctx, b)
	if ctx.Err() != nil {
		err = nil // that is how it ends
	}
	return errors.Join(err, b.close())
}
