package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock/examples/internal/child"
	"github.com/fencelock/fencelock/examples/internal/schema"
)

const schemaName = "fencelock_transfer"

const tables = `
	CREATE TABLE accounts (
		name    text PRIMARY KEY,
		balance bigint NOT NULL
	);
	CREATE TABLE ledger (
		account text NOT NULL REFERENCES accounts ON DELETE CASCADE,
		amount  bigint NOT NULL,
		balance bigint NOT NULL, -- after it
		token   bigint,
		UNIQUE (account, token)
	)`

// opening is the balance with which each account begins.
const opening = 1000

// settings are what the command line says.
type settings struct {
	URL      string
	Arm      string        // empty: all
	Length   time.Duration // of each arm
	Workers  int
	Accounts int
	TTL      time.Duration
	Work     time.Duration
}

// run runs the arms, one after the other, and calls each for each row.
func run(ctx context.Context, s settings, each func(row)) error {
	return schema.OnPostgres(ctx, s.URL, schemaName, tables, func(url string, pool *pgxpool.Pool) error {
		for i, a := range arms {
			if s.Arm != "" && s.Arm != a.name {
				continue
			}
			if err := open(ctx, pool, s.Accounts); err != nil {
				return err
			}
			did, took, err := s.work(ctx, url, i)
			if err != nil {
				return fmt.Errorf("%s: %w", a.name, err)
			}
			r, err := count(ctx, pool)
			if err != nil {
				return err
			}
			r.Arm, r.Transfers, r.Refused = a.name, did.Done, did.Refused
			r.Expected, r.PerSecond = int64(s.Accounts)*opening, float64(did.Done)/took.Seconds()
			each(r)
		}
		return nil
	})
}

// open starts anew.
func open(ctx context.Context, pool *pgxpool.Pool, accounts int) error {
	_, err := pool.Exec(ctx, `DELETE FROM accounts`)
	for i := 0; err == nil && i < accounts; i++ {
		_, err = pool.Exec(ctx, `INSERT INTO accounts VALUES ($1, $2)`, account(i), opening)
	}
	return err
}

// work has the workers of one arm transfer money for a while. Now and then one of
// them is stopped in mid-transfer for longer than a lease lasts.
func (s settings) work(ctx context.Context, url string, arm int) (all counts, took time.Duration, err error) {
	met := make(chan *child.Process)
	var workers []*worker
	start := time.Now()
	for range s.Workers {
		w, startErr := startWorker(workerConfig{URL: url, Arm: arm, Accounts: s.Accounts, TTL: s.TTL, Work: s.Work}, met)
		if startErr != nil {
			err = startErr
			break
		}
		workers = append(workers, w)
	}
	if err == nil {
		err = s.strike(ctx, met)
	}
	took = time.Since(start)
	for _, w := range workers {
		did, stopErr := w.stop()
		all.Done, all.Refused, err = all.Done+did.Done, all.Refused+did.Refused, errors.Join(err, stopErr)
	}
	return all, took, err
}

// worker is a process that transfers money, seen from the parent.
type worker struct {
	*child.Process
	last string // line that it printed; to be read after its end
}

// startWorker starts a worker, which is offered on met whenever it is inside a
// transfer, to whom is waiting there at that moment.
func startWorker(c workerConfig, met chan<- *child.Process) (*worker, error) {
	p, err := child.Start(workerEnv, c)
	if err != nil {
		return nil, err
	}
	w := &worker{Process: p}
	go w.Follow(func(line string) {
		if w.last = line; line != inside {
			return
		}
		select {
		case met <- p:
		default: // nobody is waiting, and old news are no news
		}
	})
	return w, nil
}

// stop ends the worker and returns what it did.
func (w *worker) stop() (did counts, err error) {
	if err := w.Stop(); err != nil {
		return did, err
	}
	err = json.Unmarshal([]byte(w.last), &did)
	return did, err
}

// strike stops a worker inside a transfer, again and again until the time is over.
func (s settings) strike(ctx context.Context, met <-chan *child.Process) error {
	over, cancel := context.WithTimeout(ctx, s.Length)
	defer cancel()
	for {
		select {
		case <-over.Done():
			return ctx.Err()
		case w := <-met:
			if err := w.Pause(); err != nil {
				return err
			}
			time.Sleep(3 * s.TTL)
			if err := w.Resume(); err != nil {
				return err
			}
		}
		select {
		case <-over.Done():
			return ctx.Err()
		case <-time.After(2 * s.TTL):
		}
	}
}
