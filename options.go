package fencelock

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/internal/option"
)

// Option sets one thing about a Locker, in a backend's New, or about one
// acquisition, in a call. A call's option wins over New's. Options are checked
// before anything is sent; one that has no meaning where it is given is refused,
// except that Backoff and Passes are ignored by backends that neither poll nor
// pass.
type Option func(*option.Set)

// TTL is how long the server keeps a lock whose holder has fallen silent, at
// least 10 ms; the default is 30 seconds. A hold is renewed every third of it,
// so it bounds neither the work nor the hold, only how long others wait for a
// holder that died.
func TTL(d time.Duration) Option {
	return func(s *option.Set) { s.TTL = d; s.Give(option.TTL) }
}

// Wait bounds how long Acquire waits; the default is until ctx ends. Wait(0)
// makes one attempt, so that WithLock can try. When it ends, the error matches
// [ErrHeld], or context.DeadlineExceeded if the server has not answered at all.
func Wait(max time.Duration) Option {
	return func(s *option.Set) { s.Wait = max; s.Give(option.Wait) }
}

// Backoff bounds the pause between two polls of a waiting process, where the
// backend is polled; the default is 5 ms to 250 ms. Pauses double from min to
// max, with full jitter, and never outlast the time for which the server says
// that the lock is taken.
func Backoff(min, max time.Duration) Option {
	return func(s *option.Set) { s.BackoffMin, s.BackoffMax = min, max; s.Give(option.Backoff) }
}

// MinToken asks for a token greater than t, for callers who know what their
// store has already seen, as after a migration from another backend. If the
// backend cannot raise its tokens so far, the error matches [ErrRegressed]; if
// t lies more than a day ahead of a server's clock, it is refused, since it
// would spoil the name for everybody.
func MinToken(t Token) Option {
	return func(s *option.Set) { s.MinToken = int64(t); s.Give(option.MinToken) }
}

// Passes bounds how often one grant of the server may be passed on between
// goroutines of this process, each with a token of its own, before it is
// really released; the default is 4095. A pass costs no round trip. A process
// gives other processes their turn after at most 25 ms whatever n is. Passes(0)
// makes every acquisition a grant of the server.
func Passes(n int) Option {
	return func(s *option.Set) { s.Passes = n; s.Give(option.Passes) }
}

// Prefix is put before every name to form the key, row or node at the server;
// the default is "fencelock/". For New only. Lockers exclude each other if and
// only if they share backend, prefix and name.
func Prefix(p string) Option {
	return func(s *option.Set) { s.Prefix = p; s.Give(option.Prefix) }
}

// Observe calls f for every [Event] of the Locker, in their order and one at a
// time, so f must be quick. For New only.
func Observe(f func(context.Context, Event)) Option {
	return func(s *option.Set) { s.Observe = f; s.Give(option.Observe) }
}

// Event is something that happened to a lock, told to [Observe].
type Event struct {
	Kind EventKind
	Name string
	// Token of the hold, zero where there is none.
	Token Token
	// Start is when what has now ended began: the call of Acquire, the sending
	// of a renewal, the call of Release; for a loss, the start of the hold.
	Start time.Time
	// Passed is set if the lock came from, or went to, another goroutine of
	// this process without a round trip.
	Passed bool
	// Err is how it ended, nil for success.
	Err error
}

// EventKind says what an [Event] reports.
type EventKind string

// The kinds of events. The ctx that comes with the first four carries the
// values of the ctx that was given to Acquire.
const (
	// EventAcquire: Acquire or TryAcquire has returned.
	EventAcquire EventKind = "acquire"
	// EventRenew: the server has answered, or failed to answer, a renewal.
	EventRenew EventKind = "renew"
	// EventLose: a hold is lost; Err is a *LostError.
	EventLose EventKind = "lose"
	// EventRelease: a release has its result.
	EventRelease EventKind = "release"
	// EventWarn: the Locker has noticed something that endangers its promises,
	// such as a server that may evict locks. Err says what, Name may be empty.
	EventWarn EventKind = "warn"
)
