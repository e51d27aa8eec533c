package torture

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock/internal/testserver"
)

// crew is the worker processes. A killed one is followed by another.
type crew struct {
	t       *testing.T
	job     job // of all of them
	w       world
	dir     string
	names   []string
	members []*member // by their number; those that were killed stay
}

type member struct {
	*testserver.Worker
	links  []*testserver.Proxy
	killed time.Duration // when; 0: not
}

const workers = 6

func (c *crew) hire() {
	c.t.Helper()
	m := &member{}
	var addrs []string
	for _, addr := range c.w.addrs {
		p := testserver.NewProxy(c.t, addr)
		m.links, addrs = append(m.links, p), append(addrs, p.Addr())
	}
	j := c.job
	j.Worker, j.Servers, j.Journal = len(c.members), c.w.urls(addrs), c.journal(len(c.members))
	spec, err := json.Marshal(j)
	require.NoError(c.t, err)
	m.Worker = testserver.StartWorker(c.t, "torture", string(spec))
	c.members = append(c.members, m)
}

// ready waits until all have begun.
func (c *crew) ready() {
	for _, m := range c.members {
		require.Equal(c.t, "ready", m.Line())
	}
}

func (c *crew) journal(i int) string { return filepath.Join(c.dir, fmt.Sprintf("worker-%d.log", i)) }

// any returns one that lives, and its links.
func (c *crew) any(r *rand.Rand) (int, []*testserver.Proxy) {
	for {
		if i := r.IntN(len(c.members)); c.members[i].killed == 0 {
			return i, c.members[i].links
		}
	}
}

// pauseHolder pauses the one that has last written to some name, so probably in the
// middle of a hold.
func (c *crew) pauseHolder(r *rand.Rand, reg *register) (int, func()) {
	i, _ := c.any(r)
	var writer int
	if n, _ := fmt.Sscanf(reg.get(c.names[r.IntN(len(c.names))]).Value, "%d.", &writer); n == 1 && c.members[writer].killed == 0 {
		i = writer
	}
	c.members[i].Pause()
	return i, c.members[i].Resume
}

func (c *crew) kill(r *rand.Rand) (int, func()) {
	i, _ := c.any(r)
	c.members[i].Kill()
	c.members[i].killed = now()
	return i, func() {
		c.hire()
		require.Equal(c.t, "ready", c.members[len(c.members)-1].Line())
	}
}

// dismiss ends all, and waits until each has given up what it had.
func (c *crew) dismiss() {
	for _, m := range c.members {
		if m.killed == 0 {
			m.Wait()
		}
	}
}
