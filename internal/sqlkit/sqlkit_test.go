package sqlkit

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/option"
)

// S14: these two are one number under hashtext.
func TestKeysDiffer(t *testing.T) {
	a, b := KeyOf("lock-10172"), KeyOf("lock-186036")
	require.NotEqual(t, a, b)
	require.NotEqual(t, a.Int64(), b.Int64())
	require.Len(t, a.Hex(), 64)
	require.Equal(t, strings.ToLower(a.Hex()), a.Hex())
	require.Equal(t, int64(-0x1c4f3bbd6703e3ec), KeyOf("").Int64(), "other releases must find the same lock")
}

func TestLabelIsReadableAnywhere(t *testing.T) {
	for _, s := range []string{
		"", "plain/name", "a\x00b", "\xff\xfe", "emoji 😀", `quotes "'` + "`", strings.Repeat("é", 5000), strings.Repeat("x", 119) + "é\n",
	} {
		l := Label(s)
		require.LessOrEqual(t, len(l), maxLabel)
		require.True(t, utf8.ValidString(l))
		require.Equal(t, -1, strings.IndexFunc(l, func(r rune) bool { return r < 0x20 || r > 0x7e }), "%q", l)
	}
	require.Equal(t, "fencelock/invoices", Label("fencelock/invoices"))
}

func TestRetryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy, fatal, calls := errors.New("busy"), errors.New("fatal"), 0
		again := func(err error) bool { return errors.Is(err, busy) }
		run := func(ctx context.Context, errs ...error) error {
			calls = 0
			return Retry(ctx, again, func() error {
				calls++
				return errs[min(calls, len(errs))-1]
			})
		}
		require.NoError(t, run(t.Context(), busy, busy, nil))
		require.Equal(t, 3, calls)
		require.ErrorIs(t, run(t.Context(), busy, fatal), fatal)
		require.Equal(t, 2, calls)
		require.ErrorIs(t, run(t.Context(), busy), busy)
		require.Equal(t, tries, calls)
		done, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, run(done, busy), busy)
		require.Equal(t, 1, calls)
	})
}

func TestAnyTakesWhatIsFree(t *testing.T) {
	type attempt func(name string) error
	held := func(name string) error { return &fencelock.HeldError{Name: name} }
	run := func(taken []string, names []string, f attempt) (tried []string, asked int, err error) {
		_, err = Any(t.Context(), names, func(_ context.Context, names []string) (int, error) {
			asked++
			return slices.IndexFunc(names, func(n string) bool { return !slices.Contains(taken, n) }), nil
		}, func(_ context.Context, name string) (fencelock.Lock, error) {
			tried = append(tried, name)
			return nil, f(name)
		})
		return tried, asked, err
	}
	abc := []string{"a", "b", "c"}
	tried, _, err := run([]string{"a", "c"}, abc, func(string) error { return nil })
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, tried)

	tried, asked, err := run(nil, abc, held) // each is taken by somebody quicker
	require.ErrorIs(t, err, fencelock.ErrHeld)
	require.ElementsMatch(t, abc, tried)
	require.LessOrEqual(t, asked, 3)
	var h *fencelock.HeldError
	require.ErrorAs(t, err, &h)

	tried, asked, err = run(abc, abc, held)
	require.ErrorIs(t, err, fencelock.ErrHeld)
	require.Empty(t, tried)
	require.Equal(t, 1, asked)

	gone := errors.New("server gone")
	tried, _, err = run(nil, abc, func(string) error { return gone })
	require.ErrorIs(t, err, gone)
	require.Len(t, tried, 1)

	first := make(map[string]bool)
	for range 200 {
		tried, _, _ := run(nil, abc, func(string) error { return nil })
		first[tried[0]] = true
	}
	require.Len(t, first, 3, "callers begin at different names")

	for _, bad := range [][]string{nil, {""}, {"a", strings.Repeat("x", 9000)}} {
		_, asked, err := run(nil, bad, held)
		require.Error(t, err)
		require.NotErrorIs(t, err, fencelock.ErrHeld)
		require.Zero(t, asked)
	}
	_, err = Any(t.Context(), abc, func(context.Context, []string) (int, error) { return 0, gone }, nil)
	require.ErrorIs(t, err, gone)
}

// memory is a Counter.
type memory struct {
	mu         sync.Mutex
	value, now int64
	moving     bool // somebody else always gets in between
	broken     error
}

func (m *memory) Read(context.Context) (int64, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.value, m.now, m.broken
}

func (m *memory) Set(_ context.Context, old, new int64) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.moving || m.value != old {
		return false, nil
	}
	m.value = new
	return true, nil
}

func TestOptimisticTokensRise(t *testing.T) {
	m := &memory{now: 100}
	next := func() fencelock.Token {
		n, err := Optimistic(t.Context(), m)
		require.NoError(t, err)
		return n
	}
	require.Equal(t, fencelock.Token(100), next())
	require.Equal(t, fencelock.Token(101), next(), "the clock stands still")
	m.now = 50
	require.Equal(t, fencelock.Token(102), next(), "the clock was set back")
	m.value, m.now = 0, 200
	require.Equal(t, fencelock.Token(200), next(), "the counter is lost")

	var all sync.WaitGroup
	var mu sync.Mutex
	seen := make(map[fencelock.Token]bool)
	for range 8 {
		all.Go(func() {
			for range 20 {
				n, err := Optimistic(context.Background(), m)
				mu.Lock()
				if err != nil || seen[n] {
					t.Errorf("%d, %v", n, err)
				}
				seen[n] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	require.Len(t, seen, 160)

	m.value = math.MaxInt64
	_, err := Optimistic(t.Context(), m)
	require.ErrorIs(t, err, fencelock.ErrRegressed)
	m.broken = errors.New("server gone")
	_, err = Optimistic(t.Context(), m)
	require.ErrorIs(t, err, m.broken)
}

func TestOptimisticEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := Optimistic(ctx, &memory{moving: true})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestClassifyTellsStaleFromTheRest(t *testing.T) {
	var stale *fencelock.StaleError
	require.ErrorAs(t, Classify("n", 5, 7), &stale)
	require.Equal(t, fencelock.StaleError{Name: "n", Have: 5, Want: 7}, *stale)
	for _, have := range []fencelock.Token{0, 4, 5} {
		err := Classify("n", 5, have)
		require.Error(t, err)
		require.NotErrorIs(t, err, fencelock.ErrStale)
	}
	require.Error(t, CheckToken("n", 0))
	require.NoError(t, CheckToken("n", 1))
}

func TestRefusalsConcernOneRequest(t *testing.T) {
	require.ErrorIs(t, Exhausted(3), fencelock.ErrRegressed)
	require.NotErrorIs(t, Ahead(3, 2), fencelock.ErrHeld)
	require.True(t, lease.IsDefinite(Ahead(3, 2)))
	require.True(t, lease.IsDefinite(Exhausted(3)))
}

func TestOnlyRefusesWhatHasNoMeaning(t *testing.T) {
	type own struct{}
	mine := func(s *option.Set) { s.Put(own{}, "x") }
	set, err := Only("pg", "NewFence", []fencelock.Option{fencelock.Prefix("p/"), mine}, option.Prefix, own{})
	require.NoError(t, err)
	require.Equal(t, "p/", set.Prefix)
	require.Equal(t, "x", set.Own(own{}))
	for _, o := range []fencelock.Option{
		fencelock.TTL(time.Second), fencelock.Wait(0), fencelock.Backoff(1, 2), fencelock.Passes(1), fencelock.MinToken(1),
		fencelock.Observe(func(context.Context, fencelock.Event) {}), nil,
	} {
		_, err := Only("pg", "NewFence", []fencelock.Option{o}, option.Prefix)
		require.Error(t, err)
	}
	_, err = Only("pg", "Migrate", []fencelock.Option{fencelock.Prefix("p/")}, 0)
	require.ErrorContains(t, err, "pg.Migrate: option Prefix")
	_, err = Only("pg", "NewFence", []fencelock.Option{mine}, option.Prefix)
	require.Error(t, err, "another backend's option")
}

func TestGroupIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group
		require.NoError(t, g.Wait(t.Context()))
		end := make(chan struct{})
		for range 3 {
			g.Go(func() { <-end })
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, g.Wait(ctx), context.DeadlineExceeded)
		time.AfterFunc(time.Minute, func() { close(end) })
		start := time.Now()
		require.NoError(t, g.Wait(t.Context()))
		require.Equal(t, time.Minute, time.Since(start))
	})
}
