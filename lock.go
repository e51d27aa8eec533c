package fencelock

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// Token is a fencing token: a positive number that is greater for every later
// grant of a name. Hand it to the storage with each write and let the storage
// refuse lower ones, see [Fence]. The zero Token is no token.
type Token int64

// String returns the token in decimal.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// Locker hands out locks by name. It is safe for concurrent use, and one
// process needs one Locker per backend: goroutines that share it queue inside
// the process and pass a hold on without a round trip.
//
// A Locker is never re-entrant: a goroutine that asks for a name it holds
// waits for itself.
type Locker interface {
	// Acquire waits until it holds name. The wait ends with ctx or with
	// [Wait], whichever is first; neither bounds the hold, which lasts, renewed
	// in the background, until Release or loss. Waiters of one process are
	// served in the order they came.
	//
	// The error matches [ErrHeld] when somebody else kept the lock for the
	// whole wait; if ctx ended the wait, it matches ctx.Err() too. Any other
	// error is the client's own, wrapped once with the name. On error nothing
	// is held and nothing is left at the server.
	Acquire(ctx context.Context, name string, opts ...Option) (Lock, error)

	// TryAcquire makes one attempt. If another process holds name, or a
	// goroutine of this one holds it or is about to, the error matches
	// [ErrHeld].
	TryAcquire(ctx context.Context, name string, opts ...Option) (Lock, error)
}

// Lock is one hold of one name. It is safe for concurrent use.
type Lock interface {
	// Name returns the name as it was given to Acquire.
	Name() string

	// Token returns the fencing token of this hold, also after its end.
	Token() Token

	// Lost returns a channel that is closed when the hold is lost: expired,
	// taken by another, deleted, cut off with its session, or ended by Close.
	// A Release does not close it.
	Lost() <-chan struct{}

	// Err returns nil while the lock is held and a *[LostError] afterwards,
	// with reason [Released] after a Release.
	Err() error

	// Valid returns how long the lock is certainly still held even if no
	// further renewal succeeds, zero if it is not held. It counts in this
	// process's monotonic time and leaves a margin for clocks that run at
	// slightly different rates.
	Valid() time.Duration

	// Release gives the lock up: to the next waiter of this process if there is
	// one, else to the server. It returns nil once the lock is given up and a
	// *[LostError] if it had been lost before. Such a result is final: further
	// calls repeat it.
	//
	// If ctx ends first or the server cannot be reached, the error says so
	// and the release goes on in the background until it is done or the TTL has
	// passed; Release may be called again and waits for that result. A
	// ctx that has already ended still starts the release.
	Release(ctx context.Context) error
}

// releaseWait bounds WithLock's wait for its release.
const releaseWait = 5 * time.Second

// WithLock acquires name, calls fn with the fencing token, and releases. It
// returns Acquire's error without calling fn, or fn's error and Release's
// joined, so that a loss of the lock that this process knows of is never a nil
// error.
//
// The ctx given to fn ends with the caller's, and when the lock is lost; then
// [context.Cause] is a *[LostError]. A bound on the hold is one ctx away: give
// fn's work a context.WithTimeout, or WithLock itself a ctx that ends.
//
// The release always happens, on a ctx detached from the caller's, also when fn
// panics or calls runtime.Goexit, which then go on. WithLock waits for the
// release at most 5 seconds; after that it goes on in the background. With the
// Lockers of this module it parks no goroutine.
func WithLock(ctx context.Context, l Locker, name string,
	fn func(ctx context.Context, token Token) error, opts ...Option,
) (err error) {
	switch {
	case l == nil:
		return errors.New("fencelock: WithLock: the Locker is nil")
	case fn == nil:
		return errors.New("fencelock: WithLock: the function is nil")
	}
	lock, err := l.Acquire(ctx, name, opts...)
	if err != nil {
		return err
	}
	held, cancel := context.WithCancelCause(ctx)
	stop := afterLost(lock, func() { cancel(lock.Err()) })
	defer func() {
		stop()
		detached, done := context.WithTimeout(context.WithoutCancel(ctx), releaseWait)
		released := lock.Release(detached)
		done()
		cancel(nil)
		switch {
		case err == nil:
			err = released
		case released != nil && !errors.Is(err, released):
			err = errors.Join(err, released)
		}
	}()
	return fn(held, lock.Token())
}

// afterLost arranges for f to run once lock is lost, and returns a function
// that calls this off. Locks of this module have the method AfterLost, as a
// Context may have AfterFunc, so that ten thousand holds park no goroutine;
// other people's get one each.
func afterLost(lock Lock, f func()) (stop func() bool) {
	if l, ok := lock.(interface {
		AfterLost(f func()) (stop func() bool)
	}); ok {
		return l.AfterLost(f)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-lock.Lost():
			f()
		case <-ctx.Done():
		}
	}()
	return func() bool { cancel(); return true }
}
