package sqlkit

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	tries      = 30
	firstPause = time.Millisecond
	maxPause   = 50 * time.Millisecond
)

// Retry calls f until it succeeds or fails with an error that again does not
// take for one of the server's "try again" (a serialization failure, a
// deadlock), at most 30 times, with a random pause in between, so that those who
// collided do not collide again. It returns f's last error, also if ctx ends
// during a pause.
func Retry(ctx context.Context, again func(error) bool, f func() error) error {
	top := firstPause
	for n := 1; ; n++ {
		err := f()
		if err == nil || n == tries || !again(err) || !pause(ctx, rand.N(top)) {
			return err
		}
		top = min(2*top, maxPause)
	}
}

// pause reports whether d passed before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
