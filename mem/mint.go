package mem

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
)

var errGivenUp = errors.New("mem: this attempt has been given up")

// day is how far above the clock and the counter a token may be forced, in the
// microseconds that tokens are made of.
const day = fencelock.Token(24 * time.Hour / time.Microsecond)

// mint reserves the next block of n tokens, or fewer: microseconds that have
// passed since the last grant. So the counter does not run ahead of the clock,
// and tokens keep rising even when the counter is lost.
func mint(counter fencelock.Token, clock time.Time, least fencelock.Token, n int) (first, last fencelock.Token, err error) {
	now, size := fencelock.Token(clock.UnixMicro()), fencelock.Token(max(n, 1))
	if limit := max(counter, now) + day; least > limit {
		return 0, 0, fmt.Errorf("mem: MinToken %d is more than a day above the greatest token that makes sense now, %d", least, limit-day)
	}
	if counter == 0 {
		first = max(now, least+1, 1)
		return first, first, nil
	}
	first = max(counter+1, least+1, now-size+1)
	last = max(first, min(first+size-1, now))
	return first, last, nil
}
