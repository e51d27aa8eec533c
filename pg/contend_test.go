package pg_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
)

// contend is what a worker process of the contest does: args are the style, the
// server's URL, the TTL and the names. Four goroutines lock names at random until
// the input ends, and say, at the time it happens,
//
//	got  <name> <token> <nanoseconds>   after Acquire has returned
//	end  <name> <token> <nanoseconds>   before Release is called, or when the lock is lost
//
// What fails is tried again: the server is killed in between.
func contend(args []string, in io.Reader, out io.Writer) error {
	style, url, ttl, names := args[0], args[1], args[2], args[3:]
	d, err := time.ParseDuration(ttl)
	if err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	config.MaxConns = 4
	config.ConnConfig.ConnectTimeout = 2 * time.Second
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return err
	}
	defer pool.Close()
	l, err := styles[style](pool, fencelock.TTL(d))
	if err != nil {
		return err
	}
	var mu sync.Mutex
	w := bufio.NewWriter(out)
	say := func(what string, lock fencelock.Lock) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(w, what, lock.Name(), lock.Token(), time.Now().UnixNano())
		_ = w.Flush()
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				lock, err := l.Acquire(ctx, names[rand.IntN(len(names))])
				if err != nil {
					if errors.Is(err, fencelock.ErrHeld) && ctx.Err() == nil {
						panic(err) // Acquire waits
					}
					rest(ctx, 50*time.Millisecond)
					continue
				}
				say("got", lock)
				select {
				case <-lock.Lost():
				case <-time.After(rand.N(20 * time.Millisecond)): // work
				}
				say("end", lock)
				_ = lock.Release(context.WithoutCancel(ctx))
			}
		})
	}
	_, _ = io.Copy(io.Discard, in)
	cancel()
	all.Wait()
	done, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := l.Close(done); err != nil && !strings.Contains(err.Error(), "refused") {
		return err
	}
	return nil
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
