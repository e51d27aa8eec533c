package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
)

// job is what a worker process gets to do, until its input ends.
type job struct {
	Worker   int
	Backend  string
	Servers  []string // as the worker is to reach them
	TTL      time.Duration
	Seed     uint64
	Names    []string
	Journal  string
	Register string
}

// goroutines of each worker.
const goroutines = 2

// work is the main function of a worker process.
func work(args []string, in io.Reader, out io.Writer) error {
	var j job
	if err := json.Unmarshal([]byte(args[0]), &j); err != nil {
		return err
	}
	log, err := openJournal(j.Journal, j.Worker)
	if err != nil {
		return err
	}
	s, err := dialStorage(j.Register)
	if err != nil {
		return err
	}
	l, err := backends[j.Backend].open(j.Servers, fencelock.TTL(j.TTL))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var all sync.WaitGroup
	all.Go(func() { watchStalls(ctx, log) })
	for g := range uint64(goroutines) {
		all.Go(func() {
			w := worker{job: j, Rand: rand.New(rand.NewPCG(j.Seed, uint64(j.Worker)<<8|g)), log: log, storage: s, l: l}
			for ctx.Err() == nil {
				w.turn(ctx)
			}
		})
	}
	fmt.Fprintln(out, "ready")
	_, _ = io.Copy(io.Discard, in)
	stop()
	all.Wait()
	closing, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return l.Close(closing)
}

// worker is one goroutine that uses the locks.
type worker struct {
	job
	*rand.Rand
	log     *journal
	storage *storage
	l       locker
}

// turn is one acquisition and what is done with it.
func (w *worker) turn(ctx context.Context) {
	name := w.Names[w.IntN(len(w.Names))]
	e := w.log.begin(event{Kind: acquire, Name: name})
	lock, err := w.acquire(ctx, name)
	switch {
	case err == nil:
	case errors.Is(err, fencelock.ErrHeld):
		w.log.end(e, refused, err)
		w.pause(ctx, 20*time.Millisecond)
		return
	default:
		w.log.end(e, failed, err)
		w.pause(ctx, 100*time.Millisecond)
		return
	}
	hold := e.ID
	e.Token = lock.Token()
	w.log.end(e, ok, nil)
	released := make(chan struct{})
	told := make(chan struct{})
	go func() {
		defer close(told)
		select {
		case <-lock.Lost():
			w.log.log(event{Kind: lost, End: true, Name: name, Token: lock.Token(), Hold: hold, Error: fmt.Sprint(lock.Err())})
		case <-released:
		}
	}()

	// Sometimes it works on for long, without looking whether it still has the lock.
	most := 5 * time.Millisecond
	if w.IntN(16) == 0 {
		most = w.TTL / 2
	}
	for i := range 1 + w.IntN(5) {
		w.write(name, lock.Token(), hold, fmt.Sprintf("%d.%d.%d", w.Worker, hold, i))
		time.Sleep(rand.N(most)) // whatever ctx says
	}

	close(released)
	<-told
	e = w.log.begin(event{Kind: release, Name: name, Token: lock.Token(), Hold: hold})
	closing, cancel := context.WithTimeout(context.Background(), 2*w.TTL)
	defer cancel()
	switch err := lock.Release(closing); {
	case err == nil:
		w.log.end(e, ok, nil)
	case errors.Is(err, fencelock.ErrLost):
		w.log.end(e, refused, err)
	default:
		w.log.end(e, failed, err)
	}
}

func (w *worker) acquire(ctx context.Context, name string) (fencelock.Lock, error) {
	if w.IntN(4) == 0 {
		return w.l.TryAcquire(ctx, name)
	}
	return w.l.Acquire(ctx, name, fencelock.Wait(rand.N(3*w.TTL)))
}

func (w *worker) write(name string, t fencelock.Token, hold int, value string) {
	e := w.log.begin(event{Kind: write, Name: name, Token: t, Value: value, Hold: hold})
	a, err := w.storage.ask(request{name, t, value})
	switch {
	case err != nil:
		w.log.end(e, failed, err)
	case a.Admitted:
		w.log.end(e, ok, nil)
	default:
		w.log.end(e, refused, nil)
	}
}

func (w *worker) pause(ctx context.Context, most time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(w.N(most)):
	}
}

// N is a random duration.
func (w *worker) N(most time.Duration) time.Duration {
	return time.Duration(w.Int64N(int64(most)))
}

// watchStalls logs when this process did not get to run, for whatever reason.
func watchStalls(ctx context.Context, log *journal) {
	const tick = 2 * time.Millisecond
	t := time.NewTicker(tick)
	defer t.Stop()
	for last := now(); ctx.Err() == nil; {
		<-t.C
		at := now()
		if at-last > 5*tick {
			e := event{Kind: stall, At: last}
			e.ID = log.log(e)
			e.At, e.End = at, true
			log.log(e)
		}
		last = at
	}
}
