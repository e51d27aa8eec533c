package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock/examples/internal/child"
	"github.com/fencelock/fencelock/examples/internal/schema"
)

const schemaName = "fencelock_queue"

const tables = `
	CREATE TABLE jobs (
		id          int PRIMARY KEY,
		tries       int NOT NULL DEFAULT 0,
		done_by     text,
		fence_token bigint NOT NULL DEFAULT 0
	);
	CREATE TABLE effects (
		job    int NOT NULL REFERENCES jobs ON DELETE CASCADE,
		token  bigint NOT NULL,
		worker text NOT NULL
	)`

// drainTime bounds how long it may take until all jobs are done, those of the dead
// and the stopped worker included.
const drainTime = 3 * time.Minute

// settings are what the command line says.
type settings struct {
	URL     string
	Style   string
	Jobs    int
	Workers int
	TTL     time.Duration
	Work    time.Duration
}

// run drains the queue without and with a fence, and calls each for each row.
func run(ctx context.Context, s settings, each func(row)) error {
	return schema.OnPostgres(ctx, s.URL, schemaName, tables, func(url string, pool *pgxpool.Pool) error {
		for _, f := range fences {
			_, err := pool.Exec(ctx, `DELETE FROM jobs`)
			if err == nil {
				_, err = pool.Exec(ctx, `INSERT INTO jobs (id) SELECT generate_series(1, $1::int)`, s.Jobs)
			}
			if err != nil {
				return err
			}
			r := &round{settings: s, pool: pool, url: url, met: make(chan meeting)}
			out, err := r.do(ctx, f)
			if err != nil {
				return fmt.Errorf("fence %s: %w", f.name, err)
			}
			each(out)
		}
		return nil
	})
}

// round is one run of the queue until it is empty.
type round struct {
	settings
	pool    *pgxpool.Pool
	url     string
	workers []*worker
	met     chan meeting
	alive   sync.WaitGroup // workers
}

// worker is a process that does jobs, seen from the parent.
type worker struct {
	*child.Process
	name    string
	refused int // to be read after its end
	killed  bool
}

// meeting is a worker in the middle of a job.
type meeting struct {
	*worker
	job int
}

func (r *round) do(ctx context.Context, f fence) (row, error) {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	start := time.Now()
	var err error
	for i := range r.Workers {
		if err = r.start(fmt.Sprint("worker ", i+1), f); err != nil {
			break
		}
	}
	kill := context.AfterFunc(ctx, func() {
		for _, w := range r.workers {
			_ = w.Kill()
		}
	})
	defer kill()
	if err == nil {
		err = r.strike(ctx)
	}
	if err != nil { // nobody may wait for the queue to be drained
		cancel()
	}
	refused := 0
	for _, w := range r.workers {
		if ended := w.Wait(); !w.killed {
			err = errors.Join(err, ended)
		}
		refused += w.refused
	}
	if err != nil {
		return row{}, err
	}
	out, err := count(ctx, r.pool)
	out.Fence, out.Refused, out.Seconds = f.name, refused, time.Since(start).Seconds()
	return out, err
}

// start starts a worker, which is offered on met whenever it is in the middle of
// a job, to whom is waiting there at that moment.
func (r *round) start(name string, f fence) error {
	p, err := child.Start(workerEnv, workerConfig{
		URL: r.url, Name: name, Style: r.Style, Fenced: f.asked, TTL: r.TTL, Work: r.Work,
	})
	if err != nil {
		return err
	}
	w := &worker{Process: p, name: name}
	r.workers = append(r.workers, w)
	r.alive.Go(func() { w.Follow(func(line string) { r.hear(w, line) }) })
	return nil
}

// hear takes a line that a worker has printed.
func (r *round) hear(w *worker, line string) {
	var job int
	if _, err := fmt.Sscanf(line, refusedLine+" %d", &w.refused); err == nil {
		return
	}
	if _, err := fmt.Sscanf(line, working+" %d", &job); err != nil {
		return
	}
	select {
	case r.met <- meeting{w, job}:
	default: // nobody is waiting, and old news are no news
	}
}

// strike kills a worker in mid-job, then stops another in mid-job until somebody
// else has done it, and lets it go on.
func (r *round) strike(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { r.alive.Wait(); cancel() }() // do waits for the workers, too
	victim, err := r.stopped(ctx)
	if err != nil {
		return err
	}
	victim.killed = true
	if err := victim.Kill(); err != nil {
		return err
	}
	sleeper, err := r.stopped(ctx)
	if err != nil {
		return err
	}
	for done := false; !done && err == nil; {
		time.Sleep(pause)
		done, err = r.done(ctx, sleeper.job)
	}
	return errors.Join(err, sleeper.Resume())
}

// stopped stops a worker that is in the middle of a job.
func (r *round) stopped(ctx context.Context) (meeting, error) {
	for {
		m, err := r.meet(ctx)
		if err != nil {
			return m, err
		}
		if err := m.Pause(); err != nil {
			return m, err
		}
		done, err := r.done(ctx, m.job)
		if err == nil && !done {
			return m, nil
		}
		// We came too late: it was about to begin the next one.
		if err := errors.Join(err, m.Resume()); err != nil {
			return m, err
		}
	}
}

// meet waits for a worker that lives and is in the middle of a job.
func (r *round) meet(ctx context.Context) (meeting, error) {
	for {
		select {
		case <-ctx.Done():
			return meeting{}, fmt.Errorf("no worker was met in the middle of a job: %w", ctx.Err())
		case m := <-r.met:
			if !m.killed {
				return m, nil
			}
		}
	}
}

// done reports whether a job is done.
func (r *round) done(ctx context.Context, job int) (done bool, err error) {
	err = r.pool.QueryRow(ctx, `SELECT done_by IS NOT NULL FROM jobs WHERE id = $1`, job).Scan(&done)
	return done, err
}
