package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/examples/internal/child"
	"github.com/fencelock/fencelock/examples/internal/schema"
	"github.com/fencelock/fencelock/pg"
)

const (
	workerEnv = "FENCELOCK_TRANSFER_WORKER"
	// inside is the line that a worker prints between its reads and its writes.
	inside = "inside"
	// transferTime bounds one transfer and its wait for the locks.
	transferTime = time.Minute
)

// workerConfig is what a worker is told.
type workerConfig struct {
	URL      string
	Arm      int
	Accounts int
	TTL      time.Duration
	Work     time.Duration
}

// counts is what a worker tells at its end.
type counts struct{ Done, Refused int }

// runWorker transfers money until the parent process says so or dies, and tells
// how often it did.
func runWorker(config []byte) (err error) {
	var c workerConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return err
	}
	ctx := context.Background()
	pool, err := schema.Open(ctx, c.URL, schemaName, 4)
	if err != nil {
		return err
	}
	defer pool.Close()
	locker, err := pg.NewLease(pool, fencelock.TTL(c.TTL))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close(ctx)) }()

	var stop atomic.Bool
	go func() { child.Orphaned(); stop.Store(true) }()
	b, did := &bank{pool: pool, locker: locker, work: c.Work}, counts{}
	for !stop.Load() {
		err := transferOnce(ctx, arms[c.Arm], b, randomTransfer(c.Accounts))
		switch {
		case err == nil:
			did.Done++
		case errors.Is(err, fencelock.ErrStale):
			did.Refused++
		default:
			return err
		}
	}
	text, err := json.Marshal(did)
	fmt.Println(string(text))
	return err
}

func transferOnce(ctx context.Context, a arm, b *bank, t transfer) error {
	ctx, cancel := context.WithTimeout(ctx, transferTime)
	defer cancel()
	return a.transfer(b, ctx, t)
}

func randomTransfer(accounts int) transfer {
	from := rand.IntN(accounts - 1)
	to := from + 1 + rand.IntN(accounts-1-from)
	amount := 1 + rand.Int64N(20)
	if rand.IntN(2) == 0 {
		amount = -amount
	}
	return transfer{accounts: [2]string{account(from), account(to)}, amount: amount}
}

func account(i int) string { return fmt.Sprintf("account %02d", i) }
