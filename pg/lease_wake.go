package pg

import (
	"context"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencelock/fencelock/internal/sqlkit"
)

const (
	channel   = "fencelock"            // that release.sql and undo.sql notify
	marked    = 15 * time.Second       // for how long a waiter marks a row
	remark    = 5 * time.Second        // how often the marks are renewed
	spread    = 2 * time.Millisecond   // for which the newest of those who wait lets others go first
	answering = 5 * time.Second        // for one statement of the listener
	redial    = 100 * time.Millisecond // at first, until the listener tries again
	maxRedial = 5 * time.Second
)

// listener wakes those who wait for leases. It has one connection of its own,
// from the first waiter until Idle, on which it LISTENs and marks the rows that
// somebody waits for. A release sends a NOTIFY only for a marked row: a commit with
// NOTIFY takes a lock of the whole server. Polling is the floor under all of
// this, so whatever fails here only makes it slower.
type listener struct {
	db *database

	mu       sync.Mutex
	waits    map[sqlkit.Key]map[*wait]bool
	run      *run         // nil: not running
	lookouts sqlkit.Group // behind a pooler, see lease_poll.go
	turns    turns
}

// run is one life of the listener's goroutine.
type run struct {
	stop context.CancelFunc
	done chan struct{}
	kick chan struct{} // capacity 1: somebody new waits
}

type wait struct {
	woken chan struct{} // capacity 1
	told  bool          // that the subscription stands
	turns int           // of others, that it has seen
	timer *time.Timer
}

func newListener(d *database) *listener {
	return &listener{db: d, waits: make(map[sqlkit.Key]map[*wait]bool)}
}

var errPooler = errors.New("a pooler does not pass on notifications")

// Wake implements lease.Waker. It does not wait for the connection: those who
// wait poll meanwhile, and are told to try again once the subscription stands.
func (l *listener) Wake(ctx context.Context, key string) (<-chan struct{}, error) {
	if l.db.path.Load() == pooler {
		return l.lookOut(ctx, key), nil
	}
	id, w := sqlkit.KeyOf(key), &wait{woken: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waits[id] == nil {
		l.waits[id] = make(map[*wait]bool)
	}
	l.waits[id][w] = true
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		l.remove(id, w)
		l.mu.Unlock()
	})
	if l.run == nil {
		ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
		l.run = &run{stop, make(chan struct{}), make(chan struct{}, 1)}
		go l.listen(ctx, l.run)
	}
	select {
	case l.run.kick <- struct{}{}:
	default:
	}
	return w.woken, nil
}

// remove forgets a wait; l.mu is held.
func (l *listener) remove(id sqlkit.Key, w *wait) {
	delete(l.waits[id], w)
	if len(l.waits[id]) == 0 {
		delete(l.waits, id)
	}
	if w.timer != nil {
		w.timer.Stop()
	}
}

// Idle implements lease.Idler.
func (l *listener) Idle(ctx context.Context) error {
	if err := l.lookouts.Wait(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	r := l.run
	l.mu.Unlock()
	if r == nil {
		return nil
	}
	r.stop()
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listen runs until Idle, or until it is of no use.
func (l *listener) listen(ctx context.Context, r *run) {
	defer close(r.done)
	defer l.end()
	defer r.stop()
	for pause := redial; ; pause = min(2*pause, maxRedial) {
		start := time.Now()
		err := l.session(ctx, r)
		if ctx.Err() != nil || errors.Is(err, errPooler) || !l.wanted() {
			return
		}
		if time.Since(start) > maxRedial {
			pause = redial
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// end closes the channels of those who still wait: if they go on waiting, they
// subscribe again.
func (l *listener) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.run = nil
	for id, ws := range l.waits {
		for w := range ws {
			l.remove(id, w)
			close(w.woken)
		}
	}
}

func (l *listener) wanted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waits) > 0
}

// session is the life of one connection.
func (l *listener) session(ctx context.Context, r *run) error {
	c, err := l.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answering)
		_ = c.Close(ctx)
		<-c.PgConn().CleanupDone()
		cancel()
	}()
	l.fresh()
	for {
		if err := l.mark(ctx, c); err != nil {
			return err
		}
		l.subscribed()
		if err := l.await(ctx, c, r); err != nil {
			return err
		}
	}
}

func (l *listener) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	c, err := l.db.dial(ctx, nil)
	if err != nil {
		return nil, err
	}
	between, err := l.db.look(ctx, c)
	if err == nil && between {
		err = errPooler
	}
	if err == nil {
		_, err = c.Exec(ctx, "LISTEN "+channel)
	}
	if err != nil {
		_ = c.Close(ctx)
		return nil, err
	}
	return c, nil
}

// await passes notifications on until the marks are due or somebody new waits.
func (l *listener) await(ctx context.Context, c *pgx.Conn, r *run) error {
	slice, cancel := context.WithTimeout(ctx, remark)
	defer cancel()
	kicked := make(chan struct{})
	go func() { // ends with slice
		defer close(kicked)
		select {
		case <-r.kick:
			cancel()
		case <-slice.Done():
		}
	}()
	defer func() { cancel(); <-kicked }()
	for {
		n, err := c.WaitForNotification(slice)
		switch {
		case err == nil:
			l.deliver(n.Payload)
		case slice.Err() != nil && ctx.Err() == nil && !c.IsClosed():
			return nil
		default:
			return err
		}
	}
}

// mark marks the rows of those who wait, unless others have just done so.
func (l *listener) mark(ctx context.Context, c *pgx.Conn) error {
	l.mu.Lock()
	keys := make([][]byte, 0, len(l.waits))
	for id := range l.waits {
		keys = append(keys, id[:])
	}
	l.mu.Unlock()
	if len(keys) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	err := sqlkit.Retry(ctx, isAgain, func() error {
		_, err := c.Exec(ctx, l.db.t.sql("mark.sql"), keys, micros(marked), micros(marked-remark))
		return err
	})
	return err
}

// fresh forgets who has been told: a new connection has missed what was sent
// before it.
func (l *listener) fresh() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ws := range l.waits {
		for w := range ws {
			w.told = false
		}
	}
}

// subscribed tells those who are new that a release will wake them from now on,
// so that they try once more.
func (l *listener) subscribed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ws := range l.waits {
		for w := range ws {
			if !w.told {
				w.told = true
				w.wake()
			}
		}
	}
}

// deliver wakes those who wait for the key in a notification, one after the
// other: who has seen more turns of others tries first, since chance alone would
// leave some process behind for long. One gets the lock, the others find out by a
// look.
func (l *listener) deliver(payload string) {
	var id sqlkit.Key
	if n, err := hex.Decode(id[:], []byte(payload)); err != nil || n != len(id) {
		return // not ours
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.waits[id] {
		if w.timer != nil {
			w.timer.Stop()
		}
		share := spread >> min(w.turns, 6)
		w.turns++
		w.timer = time.AfterFunc(share+rand.N(share), func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.waits[id][w] { // else its channel may be closed
				w.wake()
			}
		})
	}
}

func (w *wait) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}
