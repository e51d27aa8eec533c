package redis_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/redis"
)

func newFence(t testing.TB, client redis.Client, opts ...fencelock.Option) *redis.Fence {
	t.Helper()
	f, err := redis.NewFence(client, opts...)
	require.NoError(t, err)
	return f
}

func stale(t testing.TB, err error, have, want fencelock.Token) {
	t.Helper()
	require.ErrorIs(t, err, fencelock.ErrStale)
	var s *fencelock.StaleError
	require.ErrorAs(t, err, &s)
	require.Equal(t, have, s.Have)
	require.Equal(t, want, s.Want)
}

func TestFenceAdmits(t *testing.T) {
	s := testserver.StartRedis(t)
	var f fencelock.Fence = newFence(t, dial(t, s.Addr()))
	ctx := long(t)
	require.NoError(t, f.Admit(ctx, "n", 10))
	require.NoError(t, f.Admit(ctx, "n", 10), "a holder may come often")
	stale(t, f.Admit(ctx, "n", 9), 9, 10)
	require.NoError(t, f.Admit(ctx, "other", 9), "names are independent")
	require.NoError(t, f.Admit(ctx, "n", 11))
	stale(t, f.Admit(ctx, "n", 10), 10, 11)
	for _, bad := range []fencelock.Token{0, -1, math.MinInt64} {
		err := f.Admit(ctx, "n", bad)
		require.ErrorContains(t, err, bad.String())
		require.NotErrorIs(t, err, fencelock.ErrStale)
	}
	require.Error(t, f.Admit(ctx, "", 1))
	for _, key := range s.Do("KEYS", "*").([]any) {
		require.EqualValues(t, -1, s.Do("PTTL", key.(string)), "%s lives as long as the data", key)
	}
	other := newFence(t, dial(t, s.Addr()), fencelock.Prefix("elsewhere/"))
	require.NoError(t, other.Admit(ctx, "n", 1), "prefixes are independent")
}

// R5
func TestFenceComparesExactly(t *testing.T) {
	s := testserver.StartRedis(t)
	f := newFence(t, dial(t, s.Addr()))
	ctx := long(t)
	tokens := []fencelock.Token{9, 10, 99, 100, 1 << 53, 1<<53 + 1, 1<<53 + 2, math.MaxInt64 - 1, math.MaxInt64}
	for i, tok := range tokens {
		require.NoError(t, f.Set(ctx, "n", tok, "data", i))
		if i > 0 {
			stale(t, f.Set(ctx, "n", tokens[i-1], "data", "old"), tokens[i-1], tok)
		}
		require.Equal(t, fmt.Sprint(i), s.Do("GET", "data"))
	}
}

func TestFencedWrites(t *testing.T) {
	s := testserver.StartRedis(t)
	f := newFence(t, dial(t, s.Addr()))
	ctx := long(t)
	require.NoError(t, f.Set(ctx, "n", 10, "data", "ten"))
	require.NoError(t, f.Set(ctx, "n", 10, "data", []byte("again")))
	require.Equal(t, "again", s.Do("GET", "data"))
	require.NoError(t, f.Admit(ctx, "n", 20), "a new holder claims before it reads")
	stale(t, f.Set(ctx, "n", 10, "data", "late"), 10, 20)
	require.Equal(t, "again", s.Do("GET", "data"))

	const append = `local n = redis.call('RPUSH', KEYS[1], ARGV[1], ARGV[2]) return {n, KEYS[2], #KEYS, #ARGV} -- no newline`
	got, err := f.Do(ctx, "n", 20, append, []string{"list", "unused"}, "a", 7)
	require.NoError(t, err)
	require.Equal(t, []any{int64(2), "unused", int64(2), int64(2)}, got)
	_, err = f.Do(ctx, "n", 19, append, []string{"list", "unused"}, "b", 8)
	stale(t, err, 19, 20)
	require.Equal(t, []any{"a", "7"}, s.Do("LRANGE", "list", "0", "-1"))

	_, err = f.Do(ctx, "n", 21, `return redis.call('INCR', KEYS[1])`, []string{"list"})
	require.ErrorContains(t, err, "WRONGTYPE")
	stale(t, f.Admit(ctx, "n", 20), 20, 21)
	_, err = f.Do(ctx, "n", 21, `return nil`, nil)
	require.ErrorIs(t, err, goredis.Nil)
	_, err = f.Do(ctx, "n", 21, `return redis.error_reply('MINE no')`, nil)
	require.ErrorContains(t, err, "MINE no")
	require.Error(t, f.Set(ctx, "n", 21, "data", struct{}{}))
}

// A strict write happens once per token.
func TestStrictWrites(t *testing.T) {
	s := testserver.StartRedis(t)
	f := newFence(t, dial(t, s.Addr())).Strict()
	ctx := long(t)
	const incr = `return redis.call('INCR', KEYS[1])`
	require.NoError(t, f.Admit(ctx, "n", 10))
	_, err := f.Do(ctx, "n", 10, incr, []string{"count"})
	require.NoError(t, err, "a claim is no write")
	_, err = f.Do(ctx, "n", 10, incr, []string{"count"})
	stale(t, err, 10, 11)
	require.NoError(t, f.Admit(ctx, "n", 10), "it may still read")
	require.Equal(t, "1", s.Do("GET", "count"))

	s.Do("SET", "bad", "x")
	_, err = f.Do(ctx, "n", 11, incr, []string{"bad"})
	require.Error(t, err)
	_, err = f.Do(ctx, "n", 11, `return redis.error_reply('MINE no')`, nil)
	require.Error(t, err)
	_, err = f.Do(ctx, "n", 11, incr, []string{"count"})
	require.NoError(t, err, "what failed has not written")
	stale(t, f.Set(ctx, "n", 11, "data", "x"), 11, 12)
	require.NoError(t, f.Set(ctx, "n", 12, "data", "x"))
}

func TestDataKeyOfTheLockIsRefused(t *testing.T) {
	s := testserver.StartRedis(t)
	f := newFence(t, dial(t, s.Addr()))
	ctx := long(t)
	require.NoError(t, f.Admit(ctx, "n", 1))
	own := s.Do("KEYS", "*").([]any)[0].(string)
	m := s.Monitor()
	for _, key := range []string{"n", "fencelock/n", companionOf("fencelock/n"), own} {
		require.ErrorContains(t, f.Set(ctx, "n", 2, key, "x"), key)
		_, err := f.Do(ctx, "n", 2, `return 1`, []string{"fine", key})
		require.ErrorContains(t, err, key)
	}
	for _, c := range m.Calls() {
		require.NotContains(t, []string{"evalsha", "eval"}, c.Args[0], "nothing is sent")
	}
	require.NoError(t, f.Admit(ctx, "n", 1), "nothing was claimed")
}

// A holder that slept through its TTL is refused.
func TestFenceSavesTheData(t *testing.T) {
	s := testserver.StartRedis(t)
	client := dial(t, s.Addr())
	f, l, other := newFence(t, client), open(t, client), open(t, dial(t, s.Addr()))
	old := acquire(t, l, "n")
	require.NoError(t, f.Set(long(t), "n", old.Token(), "data", "old"))
	s.Do("DEL", "fencelock/n") // as if it had expired
	next := acquire(t, other, "n")
	require.NoError(t, f.Admit(long(t), "n", next.Token()))
	stale(t, f.Set(long(t), "n", old.Token(), "data", "late"), old.Token(), next.Token())
	require.Equal(t, "old", s.Do("GET", "data"))
	release(t, next)
	require.ErrorIs(t, old.Release(long(t)), fencelock.ErrLost)
}

func TestFenceObeysItsContext(t *testing.T) {
	s := testserver.StartRedis(t)
	f := newFence(t, dial(t, s.Addr()))
	require.NoError(t, f.Admit(long(t), "n", 1))
	s.Pause()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	require.ErrorIs(t, f.Admit(ctx, "n", 1), context.DeadlineExceeded)
	require.Less(t, time.Since(start), time.Second)
	s.Resume()
	require.NoError(t, f.Admit(long(t), "n", 1))
}
