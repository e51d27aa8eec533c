package redlock

import (
	"math"
	"time"

	"github.com/fencelock/fencelock"
)

// day is how far a proposal may lie ahead of a node's counter and clock, in the
// microseconds that tokens are made of.
const day = fencelock.Token(24 * time.Hour / time.Microsecond)

// block is a range of tokens proposed to the nodes.
type block struct{ first, last fencelock.Token }

// propose makes the longest block of at most size tokens above floor that
// reaches no further than now, and one of a single token if all up to now lie
// below floor. It returns the zero block if there is no token above floor.
func propose(floor, now fencelock.Token, size int) block {
	if floor == math.MaxInt64 {
		return block{}
	}
	n := fencelock.Token(max(size, 1)) - 1
	first := max(floor+1, now-n, 1)
	if first >= now {
		return block{first, first}
	}
	return block{first, min(first+n, now)}
}
