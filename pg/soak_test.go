package pg_test

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock/internal/testserver"
)

func TestContestLease(t *testing.T) { contest(t, "lease") }

// contest lets twenty processes fight for a few names, kills some of them without
// warning and the server in between, and then checks what they say: tokens
// strictly rise in the order of the holds, no two holds overlap, and nothing
// is left at the server.
func contest(t *testing.T, style string) {
	processes, lasts := 20, 6*time.Second
	switch {
	case os.Getenv("FENCELOCK_TEST_SOAK") == "1":
		lasts = time.Minute
	case testing.Short():
		processes, lasts = 8, 4*time.Second
	}
	const ttl = 2 * time.Second
	server := testserver.StartPostgres(t, "max_connections=400", "restart_after_crash=on")
	migrate(t, server)
	names := []string{"a", "b", "c"}

	var all sync.WaitGroup
	var mu sync.Mutex
	var holds []hold
	start := func() *contender {
		c := &contender{Worker: testserver.StartWorker(t, "contend", slices.Concat([]string{style, server.URL(), ttl.String()}, names)...)}
		all.Go(func() {
			got, err := c.listen()
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
	for end, next := time.Now().Add(lasts), lasts/3; time.Now().Before(end); {
		<-time.After(rand.N(lasts / 10))
		i := rand.IntN(processes)
		running[i].kill()
		running[i] = start()
		kills++
		if time.Until(end) < lasts-next {
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
	require.NotZero(t, crashes)
	require.Greater(t, len(holds), 5*processes)
	require.Empty(t, wrongs(holds))
	eventually(t, func() bool { return len(residue(server)) == 0 }, "nothing is left at the server")
}

// hold is one hold as its holder saw it, in nanoseconds of this machine's clock.
// The end of one whose process was killed lies between the kill and the proof
// of it.
type hold struct {
	name       string
	token      int64
	start, end int64
}

type contender struct {
	*testserver.Worker
	mu     sync.Mutex
	killed int64 // when, before the signal was sent
}

func (c *contender) kill() {
	c.mu.Lock()
	c.killed = time.Now().UnixNano()
	c.mu.Unlock()
	c.Kill()
}

// listen reads what the process says until it ends.
func (c *contender) listen() ([]hold, error) {
	var done []hold
	open := map[string]hold{}
	for {
		line, err := c.TryLine(2 * time.Minute)
		if err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		var what string
		var h hold
		if _, err := fmt.Sscan(line, &what, &h.name, &h.token, &h.start); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		id := fmt.Sprint(h.name, h.token)
		if what == "got" {
			open[id] = h
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
func wrongs(holds []hold) (wrong []string) {
	slices.SortFunc(holds, func(a, b hold) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.start, b.start))
	})
	for i, h := range holds[1:] {
		before := holds[i]
		if before.name != h.name {
			continue
		}
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

// The check itself must be able to fail.
func TestContestSeesWhatIsWrong(t *testing.T) {
	good := []hold{{"a", 1, 10, 20}, {"b", 1, 15, 16}, {"a", 2, 20, 30}}
	require.Empty(t, wrongs(slices.Clone(good)))
	for _, bad := range []hold{{"a", 2, 31, 40}, {"a", 9, 15, 18}, {"a", 9, 29, 31}} {
		require.NotEmpty(t, wrongs(append(slices.Clone(good), bad)), bad)
	}
}
