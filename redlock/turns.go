package redlock

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/redisnode"
)

// turns listens for the nodes' wake-ups while somebody waits. A node wakes one
// Locker at a time and keeps the turn for it, see lib.lua.
type turns struct {
	*driver
	id string // of this Locker in the nodes' queues

	mu      sync.Mutex
	waits   map[string]*wait // by key
	callers int              // calls of Wake under way
	linger  *time.Timer      // ends the subscriptions when nobody waits any more
	stops   []func()         // by node: ends its subscription, nil if there is none
	joining []chan struct{}  // by node: closed when a subscription under way has its result
}

// wait is one name that this Locker waits for.
type wait struct {
	wake   chan struct{}
	queued bool // an attempt may have put us into queues
	heard  []bool
	late   *time.Timer // wakes if no majority does
}

// slack is how long after the first node's wake-up the others' may come. A try
// before a majority has let go would be refused.
const slack = 5 * time.Millisecond

// linger is how long subscriptions stay for the next wait.
const linger = time.Second

// Wake is lease.Waker: it says when it is this Locker's turn to try for key.
func (d *driver) Wake(ctx context.Context, key string) (<-chan struct{}, error) {
	return d.turns.add(ctx, key)
}

// Idle is lease.Idler: it ends the subscriptions if nobody waits.
func (d *driver) Idle(ctx context.Context) error {
	d.turns.stop()
	for _, n := range d.nodes {
		if err := n.Idle(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (t *turns) add(ctx context.Context, key string) (<-chan struct{}, error) {
	t.mu.Lock()
	t.callers++
	t.mu.Unlock()
	err := t.listen(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.callers--
	if err != nil {
		return nil, err
	}
	w := &wait{wake: make(chan struct{}, 1), heard: make([]bool, len(t.nodes))}
	if t.waits == nil {
		t.waits = make(map[string]*wait)
	}
	t.waits[key] = w
	t.crew.begin()
	context.AfterFunc(ctx, func() {
		defer t.crew.end()
		t.remove(key, w)
	})
	return w.wake, nil
}

// remove ends a wait and leaves the nodes' queues, in the background.
func (t *turns) remove(key string, w *wait) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.late != nil {
		w.late.Stop()
	}
	if t.waits[key] != w {
		return
	}
	delete(t.waits, key)
	if len(t.waits) == 0 {
		if t.linger == nil {
			t.linger = time.AfterFunc(linger, t.stop)
		}
		t.linger.Reset(linger)
	}
	if w.queued {
		for n := range t.nodes {
			t.leave(n, key)
		}
	}
}

// leave takes this Locker out of a node's queue and gives its turn back.
func (t *turns) leave(node int, key string) {
	c := chore{callLeave(keysOf(key), t.id), time.Now().Add(t.ttl)}
	t.crew.spawn(func() { t.tell(context.Background(), node, c, t.patience(t.ttl)) })
}

// won notes that an attempt for key has been granted: it leaves the queues
// itself, see campaign.leaveQueues.
func (t *turns) won(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.waits[key]; w != nil {
		w.queued = false
	}
}

// over reports whether nobody here waits for key any more, or it has been won.
func (t *turns) over(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.waits[key]
	return w == nil || !w.queued
}

func callLeave(keys []string, id string) redisnode.Call {
	return redisnode.Call{Script: leaveScript, Keys: keys, Args: []string{id, millis(grace)}}
}

// waiter returns the name under which an attempt for key is to be queued, "" if
// nobody here waits for a wake-up.
func (t *turns) waiter(key string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.waits[key]
	if w == nil {
		return ""
	}
	w.queued = true
	return t.id
}

// turn is called with each message of a node.
func (t *turns) turn(node int, key string, gap bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if gap { // any message may have been missed
		for _, w := range t.waits {
			w.signal()
		}
		return
	}
	w := t.waits[key]
	if w == nil {
		t.leave(node, key) // it goes to the next at once
		return
	}
	w.heard[node] = true
	n := 0
	for _, heard := range w.heard {
		if heard {
			n++
		}
	}
	switch {
	case n > len(t.nodes)/2:
		w.signal()
	case w.late == nil:
		w.late = time.AfterFunc(slack, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			w.signal()
		})
	}
}

// signal wakes the waiter; turns.mu is held.
func (w *wait) signal() {
	if w.late != nil {
		w.late.Stop()
		w.late = nil
	}
	clear(w.heard)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// listen subscribes at all nodes and returns when a majority has confirmed, so
// that the attempt that follows is queued by somebody who can be woken.
func (t *turns) listen(ctx context.Context) error {
	t.mu.Lock()
	if t.stops == nil {
		t.stops, t.joining = make([]func(), len(t.nodes)), make([]chan struct{}, len(t.nodes))
	}
	ready := 0
	results := make(chan struct{}, len(t.nodes))
	for n := range t.nodes {
		if t.stops[n] != nil {
			ready++
			continue
		}
		if t.joining[n] == nil {
			t.joining[n] = make(chan struct{})
			t.crew.spawn(func() { t.join(n) })
		}
		joined := t.joining[n]
		t.crew.spawn(func() { <-joined; results <- struct{}{} })
	}
	outstanding := len(t.nodes) - ready
	t.mu.Unlock()
	for ; outstanding > 0; outstanding-- {
		if t.listening() > len(t.nodes)/2 {
			return nil
		}
		select {
		case <-results:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if t.listening() == 0 {
		return errSilent
	}
	return nil // fewer than a majority: still better than to poll
}

func (t *turns) listening() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, stop := range t.stops {
		if stop != nil {
			n++
		}
	}
	return n
}

// join subscribes at one node.
func (t *turns) join(n int) {
	ctx, cancel := context.WithTimeout(context.Background(), t.timeout)
	defer cancel()
	stop, err := t.nodes[n].Subscribe(ctx, "fencelock:turn:"+t.id, func(message string, gap bool) {
		last, key, _ := strings.Cut(message, " ")
		if counter, err := strconv.ParseInt(last, 10, 64); err == nil {
			t.floors.raise(key, fencelock.Token(counter))
		}
		t.turn(n, key, gap)
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.joining[n])
	t.joining[n] = nil
	switch {
	case err != nil:
	case t.callers == 0 && len(t.waits) == 0:
		stop() // nobody waits any more
	default:
		t.stops[n] = stop
	}
}

// stop ends all subscriptions unless somebody waits.
func (t *turns) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.callers > 0 || len(t.waits) > 0 {
		return
	}
	if t.linger != nil {
		t.linger.Stop()
	}
	for n, stop := range t.stops {
		if stop != nil {
			stop()
			t.stops[n] = nil
		}
	}
}
