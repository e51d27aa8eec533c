package fencelock

import (
	"context"
	"time"
)

// Status is what a backend knows of a name at one moment, for operators; the
// lock may change hands before you read it.
type Status struct {
	// Held says whether anybody holds the lock.
	Held bool
	// Token is the first token of the present grant, or, if nobody holds the
	// lock, the last one granted; zero if unknown.
	Token Token
	// Since is when the present grant was made, by the clock that made its token
	// and about to the millisecond; zero if nobody holds the lock or the backend
	// cannot tell. A token raised by MinToken makes it too late.
	Since time.Time
	// For is how long the holder may keep it unless it renews, zero if unknown.
	For time.Duration
	// Waiters is the number of waiting processes, -1 if the backend cannot
	// tell.
	Waiters int
}

// Inspector is a Locker that can say who holds a lock. All of this module's can.
type Inspector interface {
	Locker

	// Status asks the server about name. It takes nothing and waits for nobody.
	Status(ctx context.Context, name string) (Status, error)
}

// Breaker is an Inspector that can end a hold from outside. All Lockers of this
// module can.
type Breaker interface {
	Inspector

	// Break ends the hold of name that Status shows with token t, wherever its
	// holder is, and no other: if that hold is over by now, whoever has the lock
	// keeps it. It returns nil once the hold is over.
	//
	// The lock is free at once, or goes to the next that waits. The holder is
	// told as of any other loss: within a second, or at its next renewal; if it
	// releases before that, Release returns a *[LostError]. Until it has heard, it
	// may go on working. So break a lock only where a [Fence] guards what it
	// writes, or when you know that it has stopped.
	Break(ctx context.Context, name string, t Token) error
}
