package sqlkit

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"

	"github.com/fencelock/fencelock"
)

// Counter is one name's counter of tokens, read and set without locking it.
type Counter interface {
	// Read returns the counter, 0 if there is none, and the server's clock in
	// microseconds.
	Read(ctx context.Context) (counter, now int64, err error)
	// Set changes the counter from old to new, durably, and reports false if it
	// was not old any more. An old of 0 stands for no counter as well.
	Set(ctx context.Context, old, new int64) (bool, error)
}

// Optimistic mints the next token of c: it reads, and sets if nobody else did,
// again and again while ctx lives. Each time, somebody else has got a token.
func Optimistic(ctx context.Context, c Counter) (fencelock.Token, error) {
	top := firstPause
	for {
		counter, now, err := c.Read(ctx)
		if err != nil {
			return 0, err
		}
		if counter == math.MaxInt64 {
			return 0, Exhausted(0)
		}
		next := max(counter+1, now)
		// An error here says nothing about the counter; whoever asks again gets
		// another token in any case.
		if done, err := c.Set(ctx, counter, next); err != nil {
			return 0, err
		} else if done {
			return fencelock.Token(next), nil
		}
		if !pause(ctx, rand.N(top)) {
			return 0, errors.Join(errors.New("others minted tokens of this name all the time"), ctx.Err())
		}
		top = min(2*top, maxPause)
	}
}
