package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/examples/internal/child"
	"github.com/fencelock/fencelock/examples/internal/schema"
	"github.com/fencelock/fencelock/pg"
)

const (
	workerEnv = "FENCELOCK_QUEUE_WORKER"
	// working is what a worker prints, with the job, between claiming and finishing it.
	working = "working"
	// refusedLine is what it prints at its end, with how often it was refused.
	refusedLine = "refused"
)

// styles are the kinds of locks that the workers may use.
var styles = map[string]func(*pgxpool.Pool, ...fencelock.Option) (*pg.Locker, error){
	"lease":    pg.NewLease,
	"advisory": pg.NewAdvisory,
	"row":      pg.NewRow,
}

// workerConfig is what a worker is told.
type workerConfig struct {
	URL    string
	Name   string
	Style  string
	Fenced bool
	TTL    time.Duration
	Work   time.Duration
}

// runWorker does jobs until none is open.
func runWorker(config []byte) (err error) {
	var c workerConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { child.Orphaned(); cancel() }()
	pool, err := schema.Open(ctx, c.URL, schemaName, 4)
	if err != nil {
		return err
	}
	defer pool.Close()
	locker, err := styles[c.Style](pool, fencelock.TTL(c.TTL))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close(ctx)) }()
	q := &queue{pool: pool, locker: locker, worker: c.Name, fenced: c.Fenced, work: c.Work}
	refused, err := q.drain(ctx)
	fmt.Println(refusedLine, refused)
	return err
}
