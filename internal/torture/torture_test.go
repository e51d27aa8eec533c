package torture

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
)

var (
	seed  = flag.Uint64("seed", 1, "of what is done to whom")
	which = flag.String("backend", "redis", "one of those in backends_test.go, or several with commas")
	lasts = flag.Duration("duration", 15*time.Second, "how long it is done")
)

func TestMain(m *testing.M) {
	testserver.RegisterWorker("torture", work)
	testserver.Main(m)
}

func TestTorture(t *testing.T) {
	for name := range strings.SplitSeq(*which, ",") {
		t.Run(name, func(t *testing.T) {
			b, there := backends[name]
			require.True(t, there, "no backend is called %q", name)
			torture(t, name, b)
		})
	}
}

func torture(t *testing.T, name string, b backend) {
	dir, err := os.MkdirTemp("", "fencelock-torture-")
	require.NoError(t, err)
	reg, err := newRegister()
	require.NoError(t, err)
	t.Cleanup(reg.close)
	w := b.start(t)
	c := &crew{t: t, w: w, dir: dir, names: []string{"a", "b", "c", "d"}}
	c.job = job{Backend: name, TTL: b.ttl, Seed: *seed, Names: c.names, Register: reg.l.Addr().String()}
	for range workers {
		c.hire()
	}
	c.ready()
	n := &nemesis{Rand: rand.New(rand.NewPCG(*seed, 0)), t: t, w: w, ttl: b.ttl, crew: c, register: reg}
	n.rage(*lasts)
	problems := alive(t, b, c)
	c.dismiss()
	problems = append(problems, clean(w, b.ttl)...)

	h := &history{faults: n.faults, killed: make(map[int]time.Duration), done: reg.admitted, final: reg.cells}
	for i, m := range c.members {
		ops, err := operations(c.journal(i))
		require.NoError(t, err)
		h.ops = append(h.ops, ops...)
		if m.killed > 0 {
			h.killed[i] = m.killed
		}
	}
	for _, name := range c.names {
		problems = append(problems, h.tokens(name)...)
		problems = append(problems, h.exclusion(name, b.ttl)...)
		problems = append(problems, h.register(name, func(info porcupine.LinearizationInfo) string {
			picture := filepath.Join(dir, "register-"+name+".html")
			if err := porcupine.VisualizePath(fenced, info, picture); err != nil {
				return err.Error()
			}
			return "see " + picture
		})...)
	}
	full := float64(*lasts) / float64(90*time.Second)
	problems = append(problems, h.vacuous(full, n.evils())...)

	kinds := make(map[string]int)
	for _, f := range n.faults {
		kinds[f.Kind]++
	}
	t.Logf("%s, seed %d: %d faults %v, %d grants, %d losses told, %d writes, %d fenced off", name, *seed,
		len(n.faults), kinds, h.count(acquire, ok), h.count(lost, ""), h.count(write, ok), h.count(write, refused))
	for i, p := range problems {
		if i == 20 {
			t.Errorf("and %d more", len(problems)-i)
			break
		}
		t.Error(p)
	}
	if t.Failed() {
		t.Logf("seed %d; what the workers saw is in %s", *seed, dir)
	} else {
		_ = os.RemoveAll(dir)
	}
}

// alive has a new client take every name, within twice the TTL of the last healing
// and what a slow machine needs.
func alive(t *testing.T, b backend, c *crew) (ps []problem) {
	l, err := b.open(c.w.urls(c.w.addrs), fencelock.TTL(b.ttl))
	require.NoError(t, err)
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			ps = append(ps, problem{"a Locker can be closed", err.Error()})
		}
	}()
	const slow = 3 * time.Second
	for _, name := range c.names {
		ctx, cancel := context.WithTimeout(context.Background(), 2*b.ttl+slow)
		lock, err := l.Acquire(ctx, name)
		cancel()
		if err != nil {
			ps = append(ps, problem{"all names can be had again", err.Error()})
			continue
		}
		if err := lock.Release(context.Background()); err != nil {
			ps = append(ps, problem{"all names can be had again", err.Error()})
		}
	}
	return ps
}

// clean looks for what is left at the servers, once what the dead have held has
// run out.
func clean(w world, ttl time.Duration) (ps []problem) {
	var left []string
	for start := time.Now(); time.Since(start) < 3*ttl+2*time.Second; time.Sleep(50 * time.Millisecond) {
		if left = w.residue(); len(left) == 0 {
			return nil
		}
	}
	slices.Sort(left)
	return []problem{{"nothing is left", fmt.Sprint(left)}}
}
