package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/pg"
)

// queue is one worker's way to the jobs.
type queue struct {
	pool   *pgxpool.Pool
	locker *pg.Locker
	worker string
	fenced bool
	work   time.Duration // what a job takes
}

const (
	// The jobs that a worker looks at; any number of workers may look at the same.
	listOpen = `SELECT id FROM jobs WHERE done_by IS NULL ORDER BY id LIMIT 50`
	// $1 id, $2 token
	claimJob = `UPDATE jobs SET tries = tries + 1, fence_token = $2 WHERE id = $1 AND fence_token <= $2
		RETURNING done_by IS NOT NULL`
	// $1 id, $2 token, $3 worker
	finishJob       = `UPDATE jobs SET done_by = $3, fence_token = greatest(fence_token, $2) WHERE id = $1`
	finishJobFenced = `UPDATE jobs SET done_by = $3, fence_token = $2 WHERE id = $1 AND fence_token <= $2`
	// $1 id, $2 token, $3 worker: what the job is there for
	doJob = `INSERT INTO effects (job, token, worker) VALUES ($1, $2, $3)`
	// $1 id
	jobToken = `SELECT fence_token FROM jobs WHERE id = $1`
)

// pause is how long a worker waits when all open jobs are being worked on.
const pause = 20 * time.Millisecond

// drain does jobs until none is open, and returns how many writes of it were
// refused. A job whose worker dies is open again when the lock is: as soon as the
// server notices, or when the TTL is over.
func (q *queue) drain(ctx context.Context) (refused int, err error) {
	for {
		open, err := q.open(ctx)
		if err != nil || len(open) == 0 {
			return refused, err
		}
		lock, err := q.locker.TryAny(ctx, open...)
		if errors.Is(err, fencelock.ErrHeld) {
			time.Sleep(pause)
			continue
		}
		if err != nil {
			return refused, err
		}
		err = q.do(ctx, lock)
		// Whether the lock was lost meanwhile no longer matters: the fence knew.
		if released := lock.Release(ctx); !errors.Is(released, fencelock.ErrLost) {
			err = errors.Join(err, released)
		}
		if errors.Is(err, fencelock.ErrStale) {
			refused++
		} else if err != nil {
			return refused, err
		}
	}
}

// open returns the names of the first open jobs' locks.
func (q *queue) open(ctx context.Context) ([]string, error) {
	rows, err := q.pool.Query(ctx, listOpen)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (string, error) {
		var id int
		err := r.Scan(&id)
		return fmt.Sprint(jobPrefix, id), err
	})
}

const jobPrefix = "job/"

// do does one job under its lock. Nobody looks whether the lock is lost, on
// purpose: only the token in the job's row may save it.
func (q *queue) do(ctx context.Context, lock fencelock.Lock) error {
	id, err := strconv.Atoi(strings.TrimPrefix(lock.Name(), jobPrefix))
	if err != nil {
		return err
	}
	done := false
	err = q.pool.QueryRow(ctx, claimJob, id, int64(lock.Token())).Scan(&done)
	if errors.Is(err, pgx.ErrNoRows) {
		return &fencelock.StaleError{Name: lock.Name(), Have: lock.Token(), Want: lock.Token() + 1}
	}
	if err != nil || done {
		return err // done between our look at the list and our lock
	}
	fmt.Println(working, id) // the parent may stop or kill us just here
	time.Sleep(q.work)
	return pgx.BeginFunc(ctx, q.pool, func(tx pgx.Tx) error {
		finish := finishJob
		if q.fenced {
			finish = finishJobFenced
		}
		r, err := tx.Exec(ctx, finish, id, int64(lock.Token()), q.worker)
		if err != nil {
			return err
		}
		if r.RowsAffected() == 0 {
			return pg.StaleOrMissing(ctx, tx, lock.Name(), lock.Token(), jobToken, id)
		}
		_, err = tx.Exec(ctx, doJob, id, int64(lock.Token()), q.worker)
		return err
	})
}
