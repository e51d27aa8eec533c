// Package mem is a fencelock backend inside this process, for the unit tests of
// programs that use locks, and for first steps. It runs the same engine and
// passes the same conformance suite as the backends with a real server.
//
// A [Server] plays the server: it keeps the locks, counts the tokens and queues
// the waiters. Several Lockers on one Server behave like several processes.
// Everything that goes wrong with a real server can be made to happen: on the
// Server, a lock expires ([Server.Expire]), is taken by somebody else
// ([Server.Steal]), the server hangs ([Server.Pause]), fails ([Server.Fail]),
// loses its memory ([Server.Forget]) or its clock jumps ([Server.StepClock]);
// on the [Link] of one Locker, messages are late, lost or held up, while the
// other Lockers go on.
//
// All time is time.Now and timers, so that tests may run under testing/synctest.
// It is no lock between processes, and a plain sync.Mutex excludes goroutines
// at less cost.
package mem

import (
	"context"
	"errors"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

// Locker is a [fencelock.Locker] on a [Server]. Waiting Lockers are served
// first come, first served.
type Locker struct {
	engine *lease.Locker
	server *Server
	link   *Link
}

var _ fencelock.Breaker = (*Locker)(nil)

// New returns a Locker on s, as a further process would have. The default of
// [fencelock.Prefix] is empty here, so that the names at the Server are the
// names you give.
func New(s *Server, opts ...fencelock.Option) (*Locker, error) {
	if s == nil {
		return nil, errors.New("mem: New: the Server is nil")
	}
	set, err := lease.Settings("mem", append([]fencelock.Option{fencelock.Prefix("")}, opts...))
	if err != nil {
		return nil, err
	}
	link := newLink()
	return &Locker{lease.New(&driver{s, link}, set), s, link}, nil
}

// Acquire waits until it holds name, see [fencelock.Locker].
func (l *Locker) Acquire(ctx context.Context, name string, opts ...fencelock.Option) (fencelock.Lock, error) {
	return l.engine.Acquire(ctx, name, opts...)
}

// TryAcquire makes one attempt, see [fencelock.Locker].
func (l *Locker) TryAcquire(ctx context.Context, name string, opts ...fencelock.Option) (fencelock.Lock, error) {
	return l.engine.TryAcquire(ctx, name, opts...)
}

// Status returns what the Server knows of name.
func (l *Locker) Status(ctx context.Context, name string) (fencelock.Status, error) {
	return l.engine.Status(ctx, name)
}

// Break ends a hold from outside; see fencelock.Breaker.
func (l *Locker) Break(ctx context.Context, name string, t fencelock.Token) error {
	return l.engine.Break(ctx, name, t)
}

// Close ends waits with [fencelock.ErrClosed], undoes pending attempts, tells
// holds that they are lost and releases them. It returns when that is done or
// ctx ends; closing again waits for the same. The Server goes on.
func (l *Locker) Close(ctx context.Context) error { return l.engine.Close(ctx) }

// Link returns the Locker's connection to the Server, to disturb it.
func (l *Locker) Link() *Link { return l.link }
