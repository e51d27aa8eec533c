package etcd

import (
	"fmt"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

// A grant has the 4096 tokens that begin with its key's create revision times
// 4096. Among the keys of a name that order is the order of the grants. (The
// revision in a reply's header is not: it belongs to the whole store, and a later
// grant may be read at the same one.)
const tokenBits = 12

// tokenOf returns the first of a revision's tokens.
func tokenOf(rev int64) (fencelock.Token, error) {
	if rev >= 1<<(63-tokenBits) {
		return 0, fmt.Errorf("%w: revision %d is beyond what fits into a token", fencelock.ErrRegressed, rev)
	}
	return fencelock.Token(rev << tokenBits), nil
}

// block returns the tokens of a grant.
func block(rev int64, r lease.Request) (first, last fencelock.Token, err error) {
	if first, err = tokenOf(rev); err != nil {
		return 0, 0, err
	}
	last = first | (1<<tokenBits - 1)
	if r.Min >= last {
		return 0, 0, fmt.Errorf("%w: MinToken(%d) needs revision %d, the cluster is at %d; a cluster restored from a snapshot"+
			" must have its revision raised: etcdutl snapshot restore --bump-revision", fencelock.ErrRegressed, r.Min, r.Min>>tokenBits+1, rev)
	}
	first = max(first, r.Min+1)
	return first, min(last, first+fencelock.Token(max(1, r.Tokens()))-1), nil
}
