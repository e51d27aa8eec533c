package fencelock

import (
	"errors"
	"fmt"
	"time"
)

// The conditions that callers tell apart, matched with errors.Is. All other
// errors are the client's own, wrapped once with the name of the lock.
var (
	// ErrHeld means that somebody else has the lock. The error is a *HeldError.
	ErrHeld = errors.New("fencelock: held by another")

	// ErrLost means that a hold has ended other than by its Release. The error
	// is a *LostError.
	ErrLost = errors.New("fencelock: lock lost")

	// ErrStale means that a fence refused a token because it has seen a greater
	// one. The error is a *StaleError.
	ErrStale = errors.New("fencelock: stale token")

	// ErrRegressed means that the backend cannot grant a token above MinToken:
	// its counter went back, as after a restored backup.
	ErrRegressed = errors.New("fencelock: token source is behind the required minimum")

	// ErrClosed means that the Locker has been closed.
	ErrClosed = errors.New("fencelock: locker closed")
)

// HeldError reports that a lock could not be had because somebody else has it.
// It matches [ErrHeld] and, if the end of the caller's ctx ended the wait, the
// ctx's error too.
type HeldError struct {
	Name string
	// For is how long the present holder may keep the lock unless it renews,
	// zero if the backend cannot tell.
	For time.Duration
	// Cause is the error of the ctx that ended the wait, else nil.
	Cause error
}

func (e *HeldError) Error() string {
	s := fmt.Sprintf("fencelock: %q is held by another", e.Name)
	if e.For > 0 {
		s += fmt.Sprintf(" (for %v unless renewed)", e.For)
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Is reports whether target is ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Unwrap returns Cause.
func (e *HeldError) Unwrap() error { return e.Cause }

// Reason says how a hold ended.
type Reason string

// The reasons of a [LostError].
const (
	// Expired: the deadline passed without a confirmed renewal.
	Expired Reason = "expired"
	// Taken: the server says that another attempt holds the lock.
	Taken Reason = "taken by another"
	// Deleted: the server has no record of the hold.
	Deleted Reason = "deleted at the server"
	// SessionGone: the session, lease or connection that carried the hold ended.
	SessionGone Reason = "session gone"
	// Closed: the Locker was closed while the lock was held.
	Closed Reason = "locker closed"
	// Released: the holder released it. Only Lock.Err says so; it is no loss.
	Released Reason = "released"
)

// LostError reports that a hold has ended. It matches [ErrLost].
type LostError struct {
	Name   string
	Token  Token
	Reason Reason
	// Cause is what the client said, if that is how the loss came about.
	Cause error
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("fencelock: %q (token %d) is no longer held: %s", e.Name, e.Token, e.Reason)
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Is reports whether target is ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns Cause.
func (e *LostError) Unwrap() error { return e.Cause }

// StaleError reports that a fence refused a write. It matches [ErrStale].
type StaleError struct {
	Name string
	// Have is the token that was presented.
	Have Token
	// Want is the least token that the fence admits.
	Want Token
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("fencelock: %q: token %d is stale, the fence admits %d and above", e.Name, e.Have, e.Want)
}

// Is reports whether target is ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }
