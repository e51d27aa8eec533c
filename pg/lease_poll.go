package pg

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Behind a pooler nobody can be woken. There those who wait look whether the
// lock is free, the more often the more recently it has changed hands and the
// more turns of others they have seen, since chance alone is not fair. And who
// gives up a lock that others wait for leaves it to them for a moment. Otherwise
// a process that takes it again and again would hardly let the others have it.
const (
	minLook = 10 * time.Millisecond // for who has just come; down to a quarter
	maxLook = 250 * time.Millisecond
	marks   = 100 * time.Millisecond // for how long more than a pause a mark of one who looks lasts
	yield   = 2 * minLook
)

// lookOut returns a channel that receives when key is free. It ends with ctx.
func (l *listener) lookOut(ctx context.Context, key string) <-chan struct{} {
	wake := make(chan struct{}, 1)
	l.lookouts.Go(func() {
		changed, last, turns := time.Now(), view{}, -1 // the first look sees none
		for {
			pause := min(max(time.Since(changed)/4, minLook>>min(max(turns, 0), 2)), maxLook)
			t := time.NewTimer(pause/2 + rand.N(pause/2))
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				return
			}
			v, err := l.glance(ctx, key, pause)
			switch {
			case err != nil: // the engine's own attempts will meet it, too
				continue
			case v.counter != last.counter:
				changed, last = time.Now(), v
				turns++
			}
			if !v.held() {
				select {
				case wake <- struct{}{}:
				default:
				}
			}
		}
	})
	return wake
}

// glance looks at the row of key and marks it if it is held and no mark will
// last until the next look.
func (l *listener) glance(ctx context.Context, key string, pause time.Duration) (v view, err error) {
	// Not cut short when the wait ends, which would cost the connection.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	err = l.db.with(ctx, func(c *pgx.Conn, mode []any) error {
		if v, err = lookAt(ctx, c, l.db.t, key, mode...); err != nil || !v.held() {
			return err
		}
		_, err = c.Exec(ctx, l.db.t.sql("mark.sql"), append(mode, [][]byte{keyArg(key)}, micros(pause+marks), micros(pause))...)
		return err
	})
	return v, err
}

// turns knows which locks are left to others for a moment.
type turns struct {
	mu   sync.Mutex
	left map[string]time.Time
}

func (t *turns) leave(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.left == nil {
		t.left = make(map[string]time.Time)
	}
	for k, until := range t.left {
		if !until.After(now) {
			delete(t.left, k)
		}
	}
	t.left[key] = now.Add(yield)
}

// others returns for how long key is left to others.
func (t *turns) others(key string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, time.Until(t.left[key]))
}
