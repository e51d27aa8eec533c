package redlock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
)

// source mints with f.
type source func(ctx context.Context, name string) (fencelock.Token, error)

func (f source) Next(ctx context.Context, name string) (fencelock.Token, error) { return f(ctx, name) }

// counter is a source in memory.
type counter struct {
	mu    sync.Mutex
	names map[string]fencelock.Token
}

func (c *counter) Next(_ context.Context, name string) (fencelock.Token, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names == nil {
		c.names = make(map[string]fencelock.Token)
	}
	c.names[name]++
	return c.names[name], nil
}

func TestTokensOfASource(t *testing.T) {
	e := start(t, 3)
	src := &counter{}
	l, other := dial(t, e.addrs(), Tokens(src)), dial(t, e.addrs(), Tokens(src))
	for want := fencelock.Token(1); want < 10; want += 2 {
		for i, l := range []*Locker{l, other} {
			lock := acquire(t, l, "x")
			require.Equal(t, want+fencelock.Token(i), lock.Token())
			release(t, lock)
		}
	}
	require.Len(t, src.names, 1, "the source gets the name as the caller knows it")
	require.Contains(t, src.names, "x")

	var mu sync.Mutex
	var last fencelock.Token
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			err := fencelock.WithLock(context.Background(), l, "x", func(_ context.Context, token fencelock.Token) error {
				mu.Lock()
				defer mu.Unlock()
				if token <= last {
					t.Errorf("token %d after %d", token, last)
				}
				last = token
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestTokensThatCannotBeUsed(t *testing.T) {
	e := start(t, 3)
	broken := errors.New("the table is gone")
	for what, c := range map[string]struct {
		source source
		is     error
		text   string
	}{
		"an error":          {source(func(context.Context, string) (fencelock.Token, error) { return 0, broken }), broken, "token source"},
		"not positive":      {source(func(context.Context, string) (fencelock.Token, error) { return 0, nil }), nil, "positive"},
		"below the minimum": {source(func(context.Context, string) (fencelock.Token, error) { return 7, nil }), fencelock.ErrRegressed, "7"},
	} {
		l := dial(t, e.addrs(), Tokens(c.source))
		_, err := l.Acquire(within(t, generous), "x", fencelock.MinToken(7))
		require.ErrorContains(t, err, c.text, what)
		require.NotErrorIs(t, err, fencelock.ErrHeld, what)
		if c.is != nil {
			require.ErrorIs(t, err, c.is, what)
		}
		eventually(t, generous, "nothing is left", func() bool { return len(e.residue()) == 0 })
	}
}

// A mint that outlasts the lock's validity gives the older holder the greater
// token: it is discarded.
func TestLateMintIsDiscarded(t *testing.T) {
	e := start(t, 3)
	const ttl = time.Second
	src := &counter{}
	minting, mint := make(chan struct{}), make(chan struct{})
	slow := source(func(_ context.Context, name string) (fencelock.Token, error) { // does not obey ctx
		close(minting)
		<-mint
		return src.Next(context.Background(), name)
	})
	l := dial(t, e.addrs(), fencelock.TTL(ttl), Tokens(slow))
	other := dial(t, e.addrs(), fencelock.TTL(ttl), Tokens(src))
	failed := make(chan error, 1)
	go func() {
		_, err := l.TryAcquire(context.Background(), "x")
		failed <- err
	}()
	<-minting
	lock := acquire(t, other, "x") // the first one's time is over
	require.ErrorContains(t, <-failed, "too late")
	close(mint)
	require.NoError(t, lock.Err())
	release(t, lock)
}

// The same, where the clocks step: the validity has not ended for the first
// holder, but the nodes have let another in meanwhile.
func TestMintAfterAClockStepIsDiscarded(t *testing.T) {
	e := start(t, 3)
	src := &counter{}
	minting, mint := make(chan struct{}), make(chan struct{})
	var once sync.Once
	slow := source(func(_ context.Context, name string) (fencelock.Token, error) {
		once.Do(func() { close(minting) })
		<-mint
		return src.Next(context.Background(), name)
	})
	l, other := dial(t, e.addrs(), Tokens(slow)), dial(t, e.addrs(), Tokens(src))
	got := make(chan fencelock.Lock, 1)
	go func() {
		lock, err := l.Acquire(context.Background(), "x")
		if err != nil {
			t.Error(err)
		}
		got <- lock
	}()
	<-minting
	e.eventuallyHeld(t, "x") // else a late key outlives the step
	for _, s := range e[:2] {
		s.StepClock(time.Minute)
	}
	lock := acquire(t, other, "x")
	require.EqualValues(t, 1, lock.Token())
	close(mint)
	eventually(t, generous, "the late token has been minted", func() bool {
		src.mu.Lock()
		defer src.mu.Unlock()
		return src.names["x"] == 2
	})
	require.NoError(t, lock.Err())
	release(t, lock)
	lock = receive(t, got)
	require.EqualValues(t, 3, lock.Token(), "token 2 came too late")
	release(t, lock)
}
