package lease

import (
	"context"
	"errors"
	"time"

	"github.com/fencelock/fencelock"
)

// Request is one attempt to get one lock.
type Request struct {
	Key     string        // prefix + name
	Attempt string        // 128 fresh random bits, lower hex; acquiring is idempotent per attempt
	TTL     time.Duration // asked
	Min     fencelock.Token
	Tokens  func() int // how many tokens the block should have; read it when minting

	// Refused is called by Queue, from any goroutine, whenever the server has
	// said that somebody else holds the lock, with how long (0: unknown). It lets
	// the engine tell a wait that ended from a server that never answered.
	Refused func(left time.Duration)
}

// Grant is what the server gave.
type Grant struct {
	First, Last fencelock.Token // a block of tokens, all above every earlier one and above Request.Min
	Since       time.Time       // sending of the confirmed request that the server counts the TTL from
	TTL         time.Duration   // what the server really gave
	Done        <-chan struct{} // nil, or closed when the backend itself reports the loss; many grants may share it
	State       any             // the driver's own
}

// Driver is a backend. Its methods are called concurrently, obey ctx (return
// at once when it ends, whatever the network does) and know nothing of waiting,
// passing, renewing or losing.
type Driver interface {
	// Try makes one attempt. A refusal matches ErrHeld, is definite and leaves
	// nothing at the server; a *HeldError may carry For, the name is filled in
	// by the engine. A *LostError says that this attempt cannot succeed any more:
	// the engine makes a fresh one. Any other error may be ambiguous: unless it is
	// marked Definite the engine calls Undo.
	Try(ctx context.Context, r Request) (Grant, error)

	// Renew extends a batch of holds. For each it either sets gs[i].Since and
	// gs[i].TTL and leaves errs[i] nil, or sets errs[i]: a *LostError (Reason
	// and Cause; the rest is filled in) is final, anything else is unknown and
	// tried again until the deadline. Renew never creates what is not there. One
	// stuck item must not delay the others: when ctx ends, Renew returns at once
	// with what is confirmed by then.
	Renew(ctx context.Context, rs []Request, gs []Grant, errs []error)

	// Release deletes the hold if it is still this attempt's, atomically with
	// the comparison. A *LostError is final; nil means that it is given up, also
	// when an earlier Release of this attempt did it and its reply was lost.
	// Anything else is unknown and tried again.
	Release(ctx context.Context, r Request, g Grant) error

	// Undo makes sure that nothing of this attempt remains, now and later:
	// neither lock nor queue entry, even if messages of the attempt are still on
	// their way (leave a tombstone, or wait for the attempt's own reply). It is
	// repeated until it returns nil or the TTL has passed.
	Undo(ctx context.Context, r Request) error
}

// Queuer is a Driver whose server queues the waiting processes. Others are
// polled.
type Queuer interface {
	// Queue makes a first attempt and, if it is refused, waits in the server's
	// queue until the lock is granted or ctx ends. It returns ErrHeld only if
	// queueing is impossible just now; the engine then polls.
	Queue(ctx context.Context, r Request) (Grant, error)
}

// Waker is a polled Driver that can say "try now".
type Waker interface {
	// Wake returns a channel that receives (or is closed) when it is worth
	// trying for key again. ctx ends the subscription. The engine tries once
	// more right after Wake has returned, so that no message is missed.
	Wake(ctx context.Context, key string) (<-chan struct{}, error)
}

// Idler is a Driver that keeps subscriptions, leases, sessions or connections
// for its holders and waiters.
type Idler interface {
	// Idle is called when nothing has been held or waited for during a while,
	// and when the Locker closes: stop what can be started again. A Try may run
	// at the same time.
	Idle(ctx context.Context) error
}

// Definite marks an error of Try or Queue after which nothing of the attempt
// can be at the server, as when no connection could be made: no Undo is needed.
func Definite(err error) error { return marked{err, true, false} }

// Unfit marks an error as definite and as concerning this request only, such as
// a MinToken that cannot be reached: it is not told to others who wait for the
// same name.
func Unfit(err error) error { return marked{err, true, true} }

type marked struct {
	error
	definite, unfit bool
}

func (m marked) Unwrap() error { return m.error }

// unmark takes the mark off, so that callers see the client's own error.
func unmark(err error) error {
	if m, ok := err.(marked); ok {
		return m.error
	}
	return err
}

// IsDefinite reports whether err leaves nothing of its attempt at the server: a
// refusal, or marked by Definite or Unfit.
func IsDefinite(err error) bool {
	var m marked
	return errors.Is(err, fencelock.ErrHeld) || errors.As(err, &m) && m.definite
}

func isUnfit(err error) bool {
	var m marked
	return errors.Is(err, fencelock.ErrRegressed) || errors.As(err, &m) && m.unfit
}
