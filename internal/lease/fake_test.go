package lease

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fencelock/fencelock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a backend that the tests can hold up, break and look into. Expiry
// is judged by its own clock, which is the bubble's.
type server struct {
	mu      sync.Mutex
	held    map[string]record
	dead    map[string]bool
	counter fencelock.Token
	queue   map[string][]chan struct{}
	calls   map[string]int
	batches []int

	faults     map[string]fault
	trip, back time.Duration // how long a request takes to arrive, and its answer
	done       <-chan struct{}
	idled      int
}

// fault is called before an operation, with no lock held; an error is returned
// in its place.
type fault func(ctx context.Context, r Request) error

func (s *server) on(op string, f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[op] = f
}

func (s *server) delay(trip, back time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trip, s.back = trip, back
}

type record struct {
	attempt string
	first   fencelock.Token
	until   time.Time
}

func newServer() *server {
	return &server{
		held: map[string]record{}, dead: map[string]bool{}, calls: map[string]int{},
		queue: map[string][]chan struct{}{}, faults: map[string]fault{},
	}
}

func (s *server) count(op string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[op]
}

func (s *server) begin(ctx context.Context, op string, r Request) error {
	s.mu.Lock()
	s.calls[op]++
	f, trip := s.faults[op], s.trip
	s.mu.Unlock()
	if f != nil {
		if err := f(ctx, r); err != nil {
			return err
		}
	}
	return travel(ctx, trip)
}

func (s *server) answer(ctx context.Context) error {
	s.mu.Lock()
	back := s.back
	s.mu.Unlock()
	return travel(ctx, back)
}

func travel(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	sleep(ctx, d, nil)
	return ctx.Err()
}

func (s *server) Try(ctx context.Context, r Request) (Grant, error) {
	sent := time.Now()
	if err := s.begin(ctx, "try", r); err != nil {
		return Grant{}, err
	}
	s.mu.Lock()
	if s.dead[r.Attempt] {
		s.mu.Unlock()
		return Grant{}, errors.New("a dead attempt came back")
	}
	if h, ok := s.held[r.Key]; ok && h.attempt != r.Attempt && h.until.After(time.Now()) {
		s.mu.Unlock()
		return Grant{}, &fencelock.HeldError{For: time.Until(h.until)}
	}
	first := max(s.counter, r.Min) + 1
	s.counter = first + fencelock.Token(r.Tokens()) - 1
	g := Grant{First: first, Last: s.counter, Since: sent, TTL: r.TTL, Done: s.done}
	s.held[r.Key] = record{r.Attempt, first, time.Now().Add(r.TTL)}
	s.mu.Unlock()
	if err := s.answer(ctx); err != nil {
		return Grant{}, err
	}
	return g, nil
}

func (s *server) Renew(ctx context.Context, rs []Request, gs []Grant, errs []error) {
	s.mu.Lock()
	s.batches = append(s.batches, len(rs))
	s.mu.Unlock()
	sent := time.Now()
	var wg sync.WaitGroup
	for i, r := range rs {
		wg.Go(func() {
			if errs[i] = s.begin(ctx, "renew", r); errs[i] != nil {
				return
			}
			s.mu.Lock()
			h, ok := s.held[r.Key]
			switch {
			case !ok || !h.until.After(time.Now()):
				errs[i] = &fencelock.LostError{Reason: fencelock.Deleted}
			case h.attempt != r.Attempt:
				errs[i] = &fencelock.LostError{Reason: fencelock.Taken}
			default:
				h.until = time.Now().Add(r.TTL)
				s.held[r.Key] = h
				gs[i].Since, gs[i].TTL = sent, r.TTL
			}
			s.mu.Unlock()
			if err := s.answer(ctx); err != nil {
				errs[i] = err
			}
		})
	}
	wg.Wait()
}

func (s *server) free(r Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead[r.Attempt] = true
	h, ok := s.held[r.Key]
	if !ok || h.attempt != r.Attempt || !h.until.After(time.Now()) {
		return false
	}
	delete(s.held, r.Key)
	for _, c := range s.queue[r.Key] {
		close(c)
	}
	delete(s.queue, r.Key)
	return true
}

func (s *server) Release(ctx context.Context, r Request, g Grant) error {
	if err := s.begin(ctx, "release", r); err != nil {
		return err
	}
	s.mu.Lock()
	again := s.dead[r.Attempt]
	s.mu.Unlock()
	if !s.free(r) && !again {
		return &fencelock.LostError{Reason: fencelock.Deleted}
	}
	return s.answer(ctx)
}

func (s *server) Undo(ctx context.Context, r Request) error {
	if err := s.begin(ctx, "undo", r); err != nil {
		return err
	}
	s.free(r)
	return nil
}

func (s *server) Idle(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idled++
	return nil
}

func (s *server) holder(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.held[key]; ok && h.until.After(time.Now()) {
		return h.attempt
	}
	return ""
}

// queueing is a server whose waiters stand in its queue.
type queueing struct{ *server }

func (s queueing) Queue(ctx context.Context, r Request) (Grant, error) {
	for {
		g, err := s.Try(ctx, r)
		if !errors.Is(err, fencelock.ErrHeld) {
			return g, err
		}
		r.Refused(0)
		c := make(chan struct{})
		s.mu.Lock()
		s.queue[r.Key] = append(s.queue[r.Key], c)
		s.mu.Unlock()
		select {
		case <-c:
		case <-ctx.Done():
			return Grant{}, ctx.Err()
		}
	}
}

// waking is a polled server that says when to try.
type waking struct {
	*server
	subscribed *int
}

func (s waking) Wake(ctx context.Context, key string) (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.subscribed++
	c := make(chan struct{})
	s.queue[key] = append(s.queue[key], c)
	return c, nil
}

const ttl = 900 * time.Millisecond

// bubble runs f with a polled server and a Locker on it, and closes it.
func bubble(t *testing.T, f func(t *testing.T, s *server, l *Locker), opts ...fencelock.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		l := newLocker(t, s, opts...)
		f(t, s, l)
	})
}

func newLocker(t *testing.T, d Driver, opts ...fencelock.Option) *Locker {
	t.Helper()
	set, err := Settings("test", append([]fencelock.Option{fencelock.TTL(ttl), fencelock.Prefix("")}, opts...))
	require.NoError(t, err)
	l := New(d, set)
	t.Cleanup(func() { require.NoError(t, l.Close(context.Background())) })
	return l
}

func acquire(t *testing.T, l *Locker, name string, opts ...fencelock.Option) fencelock.Lock {
	t.Helper()
	k, err := l.Acquire(t.Context(), name, opts...)
	require.NoError(t, err)
	require.Positive(t, k.Valid())
	return k
}

func free(t *testing.T, k fencelock.Lock) {
	t.Helper()
	require.NoError(t, k.Release(t.Context()))
}

func isLost(k fencelock.Lock) bool {
	select {
	case <-k.Lost():
		return true
	default:
		return false
	}
}

// result is what an Acquire in another goroutine brings.
type result struct {
	k   fencelock.Lock
	err error
}

func acquireAsync(ctx context.Context, l *Locker, name string, opts ...fencelock.Option) <-chan result {
	c := make(chan result, 1)
	go func() {
		k, err := l.Acquire(ctx, name, opts...)
		c <- result{k, err}
	}()
	return c
}

var errBroken = errors.New("broken")

func hang(ctx context.Context, _ Request) error {
	<-ctx.Done()
	return ctx.Err()
}
