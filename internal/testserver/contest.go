package testserver

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
)

// ContestTTL is the TTL that the workers of a Contest must use.
const ContestTTL = 2 * time.Second

// Contest lets twenty processes fight for a few names, kills some of them without
// warning and the server in between, and then checks what they say: tokens
// strictly rise in the order of the holds, no two holds overlap, and nothing
// is left at the server. The registered worker opens a Locker and calls Contend;
// it gets args.
func Contest(t *testing.T, server interface {
	Kill()
	Restart()
}, residue func() []string, worker string, args ...string) {
	processes, lasts := 20, 6*time.Second
	switch {
	case os.Getenv("FENCELOCK_TEST_SOAK") == "1":
		lasts = time.Minute
	case testing.Short():
		processes, lasts = 8, 4*time.Second
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var holds []tenure
	var granted atomic.Int64
	start := func() *contender {
		c := &contender{Worker: StartWorker(t, worker, args...)}
		all.Go(func() {
			got, err := c.listen(&granted)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			holds = append(holds, got...)
		})
		return c
	}
	running := make([]*contender, processes)
	for i := range running {
		running[i] = start()
	}
	kills, crashes := 0, 0
	shown := func() bool { return crashes > 0 && granted.Load() > int64(5*processes) }
	// A busy machine may need longer to show something.
	began := time.Now()
	for next := lasts / 3; ; {
		if gone := time.Since(began); gone > lasts && shown() || gone > lasts+time.Minute {
			break
		}
		<-time.After(rand.N(lasts / 10))
		i := rand.IntN(processes)
		running[i].kill()
		running[i] = start()
		kills++
		if time.Since(began) > next {
			server.Kill()
			server.Restart()
			crashes++
			next += lasts / 3
		}
	}
	for _, c := range running {
		c.Wait()
	}
	all.Wait()
	t.Logf("%d holds, %d clients and %d servers killed", len(holds), kills, crashes)
	if !shown() {
		t.Error("this shows nothing")
	}
	for _, what := range wrongs(holds) {
		t.Error(what)
	}
	for end := time.Now().Add(20 * time.Second); ; <-time.After(10 * time.Millisecond) {
		left := residue()
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("left at the server: %q", left)
		}
	}
}

// tenure is one hold as its holder saw it, in nanoseconds of this machine's clock.
// The end of one whose process was killed lies between the kill and the proof
// of it.
type tenure struct {
	name       string
	token      int64
	start, end int64
}

type contender struct {
	*Worker
	mu     sync.Mutex
	killed int64 // when, before the signal was sent
}

func (c *contender) kill() {
	c.mu.Lock()
	c.killed = time.Now().UnixNano()
	c.mu.Unlock()
	c.Kill()
}

// listen reads what the process says until it ends, and counts its holds.
func (c *contender) listen(granted *atomic.Int64) ([]tenure, error) {
	var done []tenure
	open := map[string]tenure{}
	for {
		line, err := c.TryLine(2 * time.Minute)
		if err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		var what string
		var h tenure
		if _, err := fmt.Sscan(line, &what, &h.name, &h.token, &h.start); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		id := fmt.Sprint(h.name, h.token)
		if what == "got" {
			open[id] = h
			granted.Add(1)
			continue
		}
		got := open[id]
		got.end = h.start
		delete(open, id)
		done = append(done, got)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range open {
		if c.killed == 0 {
			return nil, fmt.Errorf("the process ended and held %v", h)
		}
		h.end = max(h.start, c.killed)
		done = append(done, h)
	}
	return done, nil
}

// wrongs says which holds overlap, or have a token that is not above the one
// before.
func wrongs(holds []tenure) (wrong []string) {
	slices.SortFunc(holds, func(a, b tenure) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.start, b.start))
	})
	for i, h := range holds {
		if i == 0 || holds[i-1].name != h.name {
			continue
		}
		before := holds[i-1]
		if h.token <= before.token {
			wrong = append(wrong, fmt.Sprintf("%q: token %d after %d", h.name, h.token, before.token))
		}
		if h.start < before.end {
			wrong = append(wrong, fmt.Sprintf("%q: token %d was still held %v after token %d was granted",
				h.name, before.token, time.Duration(before.end-h.start), h.token))
		}
	}
	return wrong
}

// Contend is what a worker of a Contest does with its Locker: four goroutines lock
// names at random until the input ends, and say, at the time it happens,
//
//	got  <name> <token> <nanoseconds>   after Acquire has returned
//	end  <name> <token> <nanoseconds>   before Release is called, or when the lock is lost
//
// What fails is tried again: the server is killed in between.
func Contend(l interface {
	fencelock.Locker
	Close(ctx context.Context) error
}, in io.Reader, out io.Writer,
) error {
	names := []string{"a", "b", "c"}
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
