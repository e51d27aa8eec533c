package fencelock

import "context"

// Fence stands at the resource and refuses writers that a later holder has
// overtaken. It is what makes a lock safe: the lock alone cannot know that its
// holder has been asleep.
//
// A fence keeps, for each name, the greatest token it has seen. Use one fence
// per datum, keep its record as long as the data, and let check and write take
// effect together: that is why each backend's fence works inside the caller's
// transaction or script.
//
// A new holder claims, by Admit, before its first read. Otherwise the old
// holder could still write between that read and the new holder's first fenced
// write.
type Fence interface {
	// Admit claims name for t: it succeeds iff t is not below the greatest
	// token admitted before, and from then on refuses lower ones. The same token
	// is admitted any number of times, so that one holder may write often. The
	// error of a refusal is a *[StaleError]; a token below 1 is refused as
	// invalid.
	Admit(ctx context.Context, name string, t Token) error
}

// TokenSource mints fencing tokens outside the lock. A Locker that has one of
// its own needs none; redlock.Tokens takes one for those who already run a
// counter.
type TokenSource interface {
	// Next returns a token that is greater than all it has returned for name
	// before, to anybody.
	Next(ctx context.Context, name string) (Token, error)
}
