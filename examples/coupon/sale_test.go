package main

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
)

func newSale(t *testing.T, name string, fenced bool) sale {
	t.Helper()
	address := "sqlite:" + filepath.Join(t.TempDir(), "a file with blanks.db")
	require.NoError(t, execute(t.Context(), address, createTables))
	db, err := openDatabase(address)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s := sale{db: db, name: name, fenced: fenced}
	require.NoError(t, s.open(t.Context()))
	return s
}

func TestFenceRefusesAnOvertakenHolder(t *testing.T) {
	ctx, s := t.Context(), newSale(t, "s", true)
	require.NoError(t, s.claim(ctx, 5))
	require.NoError(t, s.issue(ctx, 5, 1, "a"))
	require.NoError(t, s.claim(ctx, 6))

	require.ErrorIs(t, s.issue(ctx, 5, 2, "late"), fencelock.ErrStale)
	require.ErrorIs(t, s.claim(ctx, 5), fencelock.ErrStale)

	issued, err := s.issued(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, issued, "a refused write leaves nothing")
	owners, err := s.owners(ctx)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"a": 1}, owners)
}

func TestWithoutAFenceTheLastWriterOwnsTheCoupon(t *testing.T) {
	ctx, s := t.Context(), newSale(t, "s", false)
	require.NoError(t, s.issue(ctx, 6, 1, "a"))
	require.NoError(t, s.issue(ctx, 5, 1, "late"))
	owners, err := s.owners(ctx)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"late": 1}, owners)
}

func TestOpenForgetsTheSaleOfBefore(t *testing.T) {
	ctx, s := t.Context(), newSale(t, "s", true)
	require.NoError(t, s.claim(ctx, 5))
	require.NoError(t, s.issue(ctx, 5, 1, "a"))
	require.NoError(t, s.open(ctx))
	owners, err := s.owners(ctx)
	require.NoError(t, err)
	require.Empty(t, owners)
	require.NoError(t, s.claim(ctx, 1))
}

func TestRowTokensNeverComeTwice(t *testing.T) {
	s := newSale(t, "s", true)
	const goroutines, each = 8, 25
	var all sync.WaitGroup
	var seen sync.Map
	for range goroutines {
		all.Go(func() {
			last := fencelock.Token(0)
			for range each {
				token, err := rowTokens{s.db}.Next(t.Context(), "n")
				if err != nil {
					t.Error(err)
					return
				}
				if _, again := seen.LoadOrStore(token, true); again || token <= last {
					t.Errorf("token %d after %d, seen before: %v", token, last, again)
				}
				last = token
			}
		})
	}
	all.Wait()
	token, err := rowTokens{s.db}.Next(t.Context(), "n")
	require.NoError(t, err)
	require.EqualValues(t, goroutines*each+1, token)
}

func TestUnknownDatabaseIsRefused(t *testing.T) {
	_, err := openDatabase("oracle://x")
	require.ErrorContains(t, err, "oracle://x")
}

// A node's keys live for their TTL, no longer and no shorter, and die earlier
// by as much as its clock jumps.
func TestEmbeddedRedisHasAClockThatCanBeStepped(t *testing.T) {
	r, err := startEmbeddedRedis()
	require.NoError(t, err)
	defer r.Close()
	c := redis.NewClient(&redis.Options{Addr: r.Addr()})
	defer c.Close()
	left := func() time.Duration {
		ms, err := c.Eval(t.Context(), `return redis.call('PTTL', KEYS[1])`, []string{"k"}).Int()
		require.NoError(t, err)
		return time.Duration(ms) * time.Millisecond
	}
	now := func() time.Time {
		ms, err := c.Eval(t.Context(), `local t = redis.call('TIME'); return t[1] * 1000 + math.floor(t[2] / 1000)`, nil).Int64()
		require.NoError(t, err)
		return time.UnixMilli(ms)
	}
	start := time.Now()
	require.NoError(t, c.Eval(t.Context(), `return redis.call('SET', KEYS[1], 'v', 'PX', 60000)`, []string{"k"}).Err())

	require.Eventually(t, func() bool { return left() < 60*time.Second-20*time.Millisecond }, 10*time.Second, time.Millisecond,
		"time goes on by itself")
	require.GreaterOrEqual(t, left(), 60*time.Second-time.Since(start)-time.Millisecond)
	require.WithinDuration(t, time.Now(), now(), 5*time.Second)

	r.step(50 * time.Second)
	require.LessOrEqual(t, left(), 10*time.Second)
	require.WithinDuration(t, time.Now().Add(50*time.Second), now(), 5*time.Second)

	r.step(10 * time.Second)
	require.Negative(t, left())
}
