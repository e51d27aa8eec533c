package redis_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/redis"
)

// R2
func TestTokensRiseAcrossAFailover(t *testing.T) {
	pair := testserver.RedisPair(t)
	before, after := open(t, dial(t, pair.Primary.Addr())), open(t, dial(t, pair.Replica.Addr()))
	cycle(t, before, "n")
	pair.WaitSynced()
	pair.Link.Cut()
	var last fencelock.Token
	for range 100 {
		last = cycle(t, before, "n", fencelock.Passes(0))
	}
	pair.Promote()
	require.Less(t, counter(t, pair.Replica, "fencelock/n"), int64(last), "the replica has missed the last grants")
	// A block reaches back by as many microseconds as there are passes; no
	// failover is so quick, but this one could be.
	eventually(t, func() bool { return serverMicros(t, pair.Replica) > int64(last)+5000 }, "the clock goes on")
	require.Greater(t, cycle(t, after, "n"), last)
}

// R2
func TestTokensRiseAfterTheCounterIsLost(t *testing.T) {
	s := testserver.StartRedis(t)
	l := open(t, dial(t, s.Addr()))
	var last fencelock.Token
	for _, lose := range []func(){
		func() { s.Do("DEL", companionOf("fencelock/n")) }, // as eviction does
		func() { s.Do("FLUSHALL") },
		func() { s.Restart() },
	} {
		for range 10 {
			require.Greater(t, cycle(t, l, "n"), last)
		}
		last = fencelock.Token(counter(t, s, "fencelock/n")) // the end of the block
		lose()
		require.Eventually(t, func() bool { _, err := s.Try("PING"); return err == nil }, 10*time.Second, 10*time.Millisecond)
		var next fencelock.Token
		eventually(t, func() bool { // connections to a restarted server fail first
			lock, err := l.TryAcquire(context.Background(), "n")
			if err != nil {
				return false
			}
			next = lock.Token()
			return lock.Release(context.Background()) == nil
		}, "it works again")
		require.Greater(t, next, last)
	}
}

// R3
func TestCountersExpire(t *testing.T) {
	s := testserver.StartRedis(t)
	client := dial(t, s.Addr())
	l := open(t, client)
	tokens, err := redis.NewTokens(client)
	require.NoError(t, err)
	last := cycle(t, l, "n")
	source, err := tokens.Next(long(t), "n")
	require.NoError(t, err)
	for _, key := range s.Do("KEYS", "*").([]any) {
		left := time.Duration(s.Do("PTTL", key.(string)).(int64)) * time.Millisecond
		require.InDelta(t, (7 * day).Minutes(), left.Minutes(), 2, "%s", key)
	}
	s.StepClock(7*day + time.Hour)
	require.Empty(t, s.Do("KEYS", "*"))
	require.Greater(t, cycle(t, l, "n"), last)
	next, err := tokens.Next(long(t), "n")
	require.NoError(t, err)
	require.Greater(t, next, source)
}

// R21
func TestCounterAheadOfTheClockLivesLonger(t *testing.T) {
	s := testserver.StartRedis(t)
	l := open(t, dial(t, s.Addr()))
	ahead := fencelock.Token(serverMicros(t, s) + (23 * time.Hour).Microseconds())
	last := cycle(t, l, "n", fencelock.MinToken(ahead))
	require.Greater(t, last, ahead)
	left := time.Duration(s.Do("PTTL", companionOf("fencelock/n")).(int64)) * time.Millisecond
	require.InDelta(t, (7*day + 23*time.Hour).Minutes(), left.Minutes(), 2)
	s.StepClock(7*day + time.Hour)
	require.Greater(t, cycle(t, l, "n"), last, "the counter is still there")
	s.StepClock(day)
	require.Greater(t, cycle(t, l, "n"), last)
}

// R22
func TestMinTokenFarAheadIsRefused(t *testing.T) {
	s := testserver.StartRedis(t)
	l, other := open(t, dial(t, s.Addr())), open(t, dial(t, s.Addr()))
	first := cycle(t, l, "n")
	year := fencelock.Token(serverMicros(t, s) + (365 * day).Microseconds())
	refused := func(min fencelock.Token) {
		t.Helper()
		for _, get := range []func(context.Context, string, ...fencelock.Option) (fencelock.Lock, error){l.TryAcquire, l.Acquire} {
			_, err := get(long(t), "n", fencelock.MinToken(min))
			require.ErrorContains(t, err, min.String())
			require.ErrorContains(t, err, "a day ahead")
			require.NotErrorIs(t, err, fencelock.ErrHeld)
		}
	}
	for _, min := range []fencelock.Token{year, math.MaxInt64 - 1, math.MaxInt64} {
		refused(min)
	}
	next := cycle(t, l, "n")
	require.Greater(t, next, first)
	require.Less(t, next, year, "the name is not spoiled")

	lock := acquire(t, other, "n")
	for _, min := range []fencelock.Token{year, math.MaxInt64} {
		_, err := l.Acquire(long(t), "n", fencelock.MinToken(min))
		require.ErrorContains(t, err, "a day ahead", "also when the lock is held")
	}
	require.Zero(t, queued(s, "fencelock/n"))
	release(t, lock)
}

// R5
func TestTokensAreExact(t *testing.T) {
	s := testserver.StartRedis(t)
	l := open(t, dial(t, s.Addr()))
	tokens, err := redis.NewTokens(dial(t, s.Addr()))
	require.NoError(t, err)
	for i, c := range []int64{1<<53 - 1, 1 << 53, 1<<53 + 1, 999_999_999_999_999_999, 1<<62 + 1, math.MaxInt64 - 1} {
		name := fmt.Sprint(i)
		s.Do("HSET", companionOf("fencelock/"+name), "c", fmt.Sprint(c))
		require.EqualValues(t, c+1, cycle(t, l, name))
		require.Equal(t, c+1, counter(t, s, "fencelock/"+name))
		s.Do("SET", "{fencelock/"+name+"}:fencelock-token:", fmt.Sprint(c))
		next, err := tokens.Next(long(t), name)
		require.NoError(t, err)
		require.EqualValues(t, c+1, next)
	}
	s.Do("HSET", companionOf("fencelock/full"), "c", fmt.Sprint(math.MaxInt64))
	_, err = l.Acquire(long(t), "full")
	require.ErrorIs(t, err, fencelock.ErrRegressed)
	require.Nil(t, s.Do("GET", "fencelock/full"))
	s.Do("SET", "{fencelock/full}:fencelock-token:", fmt.Sprint(math.MaxInt64))
	_, err = tokens.Next(long(t), "full")
	require.ErrorIs(t, err, fencelock.ErrRegressed)

	// A MinToken that its counter, ahead of the clock, can reach.
	s.Do("HSET", companionOf("fencelock/min"), "c", fmt.Sprint(int64(1<<53)))
	require.EqualValues(t, 1<<53+6, cycle(t, l, "min", fencelock.MinToken(1<<53+5)))
	require.EqualValues(t, 1<<53+7, cycle(t, l, "min", fencelock.MinToken(1<<53+5)))
}

// R23
func TestCounterNeverRunsAheadOfTheClock(t *testing.T) {
	s := testserver.StartRedis(t)
	const lockers, goroutines = 3, 10
	end := time.Now().Add(3 * time.Second)
	var all sync.WaitGroup
	var handOffs atomic.Int64
	var last atomic.Int64
	for range lockers {
		l := open(t, dial(t, s.Addr()))
		for range goroutines {
			all.Go(func() {
				for time.Now().Before(end) {
					lock, err := l.Acquire(context.Background(), "hot")
					if err != nil {
						t.Error(err)
						return
					}
					if before := last.Swap(int64(lock.Token())); before >= int64(lock.Token()) {
						t.Errorf("token %d after %d", lock.Token(), before)
					}
					handOffs.Add(1)
					if err := lock.Release(context.Background()); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	worst := int64(math.MinInt64)
	for time.Now().Before(end) {
		if s.Do("EXISTS", companionOf("fencelock/hot")) == int64(1) {
			c := counter(t, s, "fencelock/hot")
			worst = max(worst, c-serverMicros(t, s))
		}
	}
	all.Wait()
	require.LessOrEqual(t, worst, int64(1000), "microseconds ahead")
	require.Greater(t, handOffs.Load(), int64(1000))
}

func TestTokenSource(t *testing.T) {
	s := testserver.StartRedis(t)
	var source fencelock.TokenSource
	source, err := redis.NewTokens(dial(t, s.Addr()))
	require.NoError(t, err)
	var last fencelock.Token
	for range 100 {
		next, err := source.Next(long(t), "n")
		require.NoError(t, err)
		require.Greater(t, next, last)
		last = next
	}
	s.Do("FLUSHALL")
	next, err := source.Next(long(t), "n")
	require.NoError(t, err)
	require.Greater(t, next, last, "a lost counter does no harm")

	_, err = source.Next(long(t), "")
	require.Error(t, err)
	_, err = redis.NewTokens(dial(t, s.Addr()), fencelock.Passes(1))
	require.Error(t, err)
	s.Do("RPUSH", "{fencelock/list}:fencelock-token:", "x")
	_, err = source.Next(long(t), "list")
	require.ErrorContains(t, err, "WRONGTYPE")
}
