package zk

import (
	"fmt"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

const (
	blockBits = 12                    // a grant has room for 4096 tokens
	mostZxid  = 1<<(63-blockBits) - 1 // epoch 2^19
)

// tokenOf is the first token of what was made by the change zxid. The leader
// numbers all changes in their order, and a new leader goes on above the old one.
func tokenOf(zxid int64) (fencelock.Token, error) {
	if zxid <= 0 || zxid > mostZxid {
		return 0, lease.Unfit(fmt.Errorf("zk: the change %#x cannot be made a token: at most 2^19 epochs can", zxid))
	}
	return fencelock.Token(zxid << blockBits), nil
}

// block returns n tokens above min, or fewer, of the node made by zxid.
func block(zxid int64, min fencelock.Token, n int) (first, last fencelock.Token, err error) {
	first, err = tokenOf(zxid)
	if err != nil {
		return 0, 0, err
	}
	last = first + 1<<blockBits - 1
	if last <= min {
		return 0, 0, fmt.Errorf("%w: the ensemble counts its changes and is at %d, below MinToken(%d); "+
			"it cannot be raised: was it restored from a copy, or set up anew?", fencelock.ErrRegressed, last, min)
	}
	first = max(first, min+1)
	if n > 0 && last-first >= fencelock.Token(n) {
		last = first + fencelock.Token(n) - 1
	}
	return first, last, nil
}
