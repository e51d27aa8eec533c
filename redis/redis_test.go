package redis_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/redis"
)

func TestNewRefuses(t *testing.T) {
	client := dial(t, "127.0.0.1:1")
	for _, c := range []redis.Client{nil, (*goredis.Client)(nil), (*goredis.ClusterClient)(nil)} {
		_, err := redis.New(c)
		require.ErrorContains(t, err, "nil")
		_, err = redis.NewFence(c)
		require.ErrorContains(t, err, "nil")
		_, err = redis.NewTokens(c)
		require.ErrorContains(t, err, "nil")
	}
	for _, o := range []fencelock.Option{
		fencelock.TTL(time.Millisecond), redis.MinReplicas(0, time.Second), redis.MinReplicas(1, 0), redis.MinReplicas(1, time.Minute),
	} {
		_, err := redis.New(client, o)
		require.Error(t, err)
		_, err = redis.NewFence(client, o)
		require.Error(t, err)
		_, err = redis.NewTokens(client, o)
		require.Error(t, err)
	}
	_, err := redis.New(struct{ redis.Client }{client}, redis.MinReplicas(1, time.Second))
	require.ErrorContains(t, err, "MinReplicas needs")
	_, err = redis.NewFence(client, fencelock.TTL(time.Minute))
	require.ErrorContains(t, err, "Prefix")
}

func TestKeys(t *testing.T) {
	s := testserver.StartRedis(t)
	l := open(t, dial(t, s.Addr()))
	lock := acquire(t, l, "a/b", fencelock.TTL(10*time.Second))
	require.Equal(t, "string", s.Do("TYPE", "fencelock/a/b"))
	require.Regexp(t, fmt.Sprintf("^[0-9a-f]{32}:%d$", lock.Token()), s.Do("GET", "fencelock/a/b"))
	require.InDelta(t, 10_000, s.Do("PTTL", "fencelock/a/b"), 5000)
	require.Equal(t, lock.Token().String(), s.Do("HGET", companionOf("fencelock/a/b"), "c"))
	release(t, lock)
	require.Equal(t, []any{companionOf("fencelock/a/b")}, s.Do("KEYS", "*"))
}

func TestStatus(t *testing.T) {
	s := testserver.StartRedis(t)
	l, other := open(t, dial(t, s.Addr())), open(t, dial(t, s.Addr()))
	st, err := l.Status(long(t), "n")
	require.NoError(t, err)
	require.Equal(t, fencelock.Status{}, st)

	lock := acquire(t, l, "n")
	got := wants(t, s, other, "n")
	st, err = l.Status(long(t), "n")
	require.NoError(t, err)
	require.True(t, st.Held)
	require.Equal(t, lock.Token(), st.Token)
	require.InDelta(t, 30, st.For.Seconds(), 15)
	require.Equal(t, 1, st.Waiters)

	release(t, lock)
	next := receive(t, got)
	release(t, next)
	st, err = l.Status(long(t), "n")
	require.NoError(t, err)
	require.False(t, st.Held)
	require.GreaterOrEqual(t, st.Token, next.Token())
	require.Zero(t, st.Waiters)

	_, err = l.Status(long(t), "")
	require.Error(t, err)
}

// R24
func TestPlainSetNXClientIsRespected(t *testing.T) {
	s := testserver.StartRedis(t)
	l := open(t, dial(t, s.Addr()))
	s.Do("SET", "fencelock/n", "somebody", "NX", "PX", "60000")
	_, err := l.TryAcquire(long(t), "n")
	require.ErrorIs(t, err, fencelock.ErrHeld)
	var held *fencelock.HeldError
	require.ErrorAs(t, err, &held)
	require.InDelta(t, 60, held.For.Seconds(), 20)

	got := make(chan result, 1)
	calls := s.Calls("EVALSHA")
	go func() {
		lock, err := l.Acquire(context.Background(), "n")
		got <- result{Lock: lock, Err: err}
	}()
	eventually(t, func() bool { return s.Calls("EVALSHA") > calls+2 }, "it polls, since nobody will tell it")
	require.Equal(t, "somebody", s.Do("GET", "fencelock/n"))
	require.Greater(t, s.Do("PTTL", "fencelock/n"), int64(20_000))
	require.Zero(t, queued(s, "fencelock/n"))
	st, err := l.Status(long(t), "n")
	require.NoError(t, err)
	require.True(t, st.Held)
	require.Zero(t, st.Token)

	s.Do("DEL", "fencelock/n")
	lock := receive(t, got)
	require.Nil(t, s.Do("SET", "fencelock/n", "somebody", "NX", "PX", "60000"), "and they respect us")
	release(t, lock)
	require.Equal(t, "OK", s.Do("SET", "fencelock/n", "somebody", "NX"))
	_, err = l.TryAcquire(long(t), "n")
	require.ErrorIs(t, err, fencelock.ErrHeld, "a holder without TTL")
}

// R1
func TestLostReplyIsNoRefusal(t *testing.T) {
	s := testserver.StartRedis(t)
	p := testserver.NewRedisProxy(t, s.Addr())
	l := open(t, dial(t, p.Addr()), fencelock.Passes(0))
	cycle(t, l, "n") // loads the scripts

	trap := p.CutReply(testserver.Named("EVALSHA"))
	lock := try(t, l, "n")
	trap.Wait()
	require.EqualValues(t, lock.Token(), counter(t, s, "fencelock/n"), "granted once")
	require.Contains(t, s.Do("GET", "fencelock/n"), ":"+lock.Token().String())

	trap = p.CutReply(testserver.Named("EVALSHA"))
	release(t, lock)
	trap.Wait()
	require.Nil(t, s.Do("GET", "fencelock/n"))
}

// R1: what a replay says of the block and of the time left is what the first
// reply said.
func TestReplayMovesNoDeadline(t *testing.T) {
	s := testserver.StartRedis(t)
	p := testserver.NewRedisProxy(t, s.Addr())
	l := open(t, dial(t, p.Addr()))
	rec := p.Record(testserver.Named("EVALSHA", "EVAL"))
	lock := try(t, l, "n", fencelock.TTL(20*time.Second))
	rec.Wait(2)
	s.Do("PEXPIRE", "fencelock/n", "5000")
	reply, err := rec.Replay(rec.Len() - 1)
	require.NoError(t, err)
	again := reply.([]any)
	require.Equal(t, []any{"granted", lock.Token().String(), lock.Token().String()}, again[:3])
	left, err := strconv.Atoi(again[3].(string))
	require.NoError(t, err)
	require.LessOrEqual(t, left, 5000)
	require.LessOrEqual(t, s.Do("PTTL", "fencelock/n"), int64(5000))
	release(t, lock)
}

// R20
func TestDeadAttemptCannotComeBack(t *testing.T) {
	s := testserver.StartRedis(t)
	p := testserver.NewRedisProxy(t, s.Addr())
	l, other := open(t, dial(t, p.Addr())), open(t, dial(t, s.Addr()))
	rec := p.Record(testserver.Named("EVALSHA", "EVAL"))
	release(t, try(t, l, "n"))
	rec.Wait(2)
	last := 0 // the acquire that was run
	for i, r := range rec.Requests() {
		if len(r) > 8 {
			last = i
		}
	}
	for i := range 32 {
		reply, err := rec.Replay(last)
		require.NoError(t, err)
		require.Equal(t, []any{"dead"}, reply, "after %d releases", i+1)
		require.Nil(t, s.Do("GET", "fencelock/n"))
		if i < 31 {
			cycle(t, other, "n", fencelock.Passes(0))
		}
	}
}

// R10
func TestRefusalCostsOneScript(t *testing.T) {
	s := testserver.StartRedis(t)
	l, other := open(t, dial(t, s.Addr())), open(t, dial(t, s.Addr()))
	cycle(t, l, "n")
	lock := acquire(t, other, "n")
	m := s.Monitor()
	for range 10 {
		_, err := l.TryAcquire(long(t), "n")
		require.ErrorIs(t, err, fencelock.ErrHeld)
	}
	require.NoError(t, l.Close(long(t)), "nothing is under way")
	var sent, inside []string
	for _, c := range m.Calls() {
		if c.From == "lua" {
			inside = append(inside, c.Args[0])
		} else if c.Args[0] != "INFO" {
			sent = append(sent, c.Args[0])
		}
	}
	require.Len(t, sent, 10, "%v", sent)
	require.Len(t, inside, 20, "GET and PTTL each: %v", inside)
	release(t, lock)
}

// R11
func TestForgottenScriptsAreSentAgain(t *testing.T) {
	s := testserver.StartRedis(t)
	l := open(t, dial(t, s.Addr()), fencelock.TTL(time.Second))
	lock := acquire(t, l, "n")
	s.Do("SCRIPT", "FLUSH")
	seen := s.Calls("EVAL")
	eventually(t, func() bool { return s.Calls("EVAL") > seen }, "a renewal finds no script")
	s.Do("SCRIPT", "FLUSH")
	release(t, lock)
	s.Do("SCRIPT", "FLUSH")
	cycle(t, l, "n")
	before := s.Calls("EVAL")
	for range 10 {
		cycle(t, l, "n")
	}
	require.Equal(t, before, s.Calls("EVAL"), "by hash after the first")
}

// R17: no time of the client's clock is sent, so whatever that says changes
// nothing.
func TestNoClientClockIsSent(t *testing.T) {
	s := testserver.StartRedis(t)
	m := s.Monitor()
	l, other := open(t, dial(t, s.Addr()), fencelock.TTL(time.Second)), open(t, dial(t, s.Addr()), fencelock.TTL(time.Second))
	lock := acquire(t, l, "n")
	got := wants(t, s, other, "n")
	eventually(t, func() bool { return s.Calls("PEXPIRE") > 0 }, "a renewal")
	release(t, lock)
	release(t, receive(t, got))
	now := time.Now()
	calls := 0
	for _, c := range m.Calls() {
		if c.From == "lua" || c.Args[0] != "evalsha" && c.Args[0] != "eval" {
			continue
		}
		calls++
		for _, a := range c.Args[2:] {
			n, err := strconv.ParseInt(a, 10, 64)
			if err != nil {
				continue
			}
			for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond, time.Nanosecond} {
				there := time.Unix(0, 0).Add(time.Duration(n) * unit)
				require.Greater(t, now.Sub(there).Abs(), 365*day, "argument %s of %q", a, c.Args)
			}
		}
	}
	require.Greater(t, calls, 5)
}

// R4
func TestCounterOfTheWrongTypeLeavesNoLock(t *testing.T) {
	s := testserver.StartRedis(t)
	l := open(t, dial(t, s.Addr()))
	s.Do("SET", companionOf("fencelock/n"), "a string")
	for _, get := range []func(context.Context, string, ...fencelock.Option) (fencelock.Lock, error){l.TryAcquire, l.Acquire} {
		_, err := get(long(t), "n")
		require.ErrorContains(t, err, "WRONGTYPE")
		require.NotErrorIs(t, err, fencelock.ErrHeld)
		require.Nil(t, s.Do("GET", "fencelock/n"))
	}
	s.Do("DEL", companionOf("fencelock/n"))
	s.Do("RPUSH", "fencelock/n", "not a lock")
	_, err := l.TryAcquire(long(t), "n")
	require.ErrorContains(t, err, "WRONGTYPE")
	require.NotErrorIs(t, err, fencelock.ErrHeld)
	s.Do("DEL", "fencelock/n")

	lock := acquire(t, l, "n")
	s.Do("DEL", companionOf("fencelock/n"))
	s.Do("SET", companionOf("fencelock/n"), "a string")
	require.Error(t, lock.Release(long(t)))
	require.Nil(t, s.Do("GET", "fencelock/n"), "released all the same")
	s.Do("DEL", companionOf("fencelock/n"))
}

func TestServerErrorsAreNotHeld(t *testing.T) {
	s := testserver.StartRedis(t)
	l := open(t, dial(t, s.Addr()))
	cycle(t, l, "n")
	fails := func(with string) {
		t.Helper()
		for _, get := range []func(context.Context, string, ...fencelock.Option) (fencelock.Lock, error){l.TryAcquire, l.Acquire} {
			_, err := get(long(t), "n")
			require.ErrorContains(t, err, with)
			require.NotErrorIs(t, err, fencelock.ErrHeld)
		}
		require.Nil(t, s.Do("GET", "fencelock/n"))
	}
	lock := acquire(t, l, "m")
	s.Do("CONFIG", "SET", "maxmemory", "1")
	fails("OOM")
	release(t, lock)
	require.Nil(t, s.Do("GET", "fencelock/m"), "a release works without memory")
	s.Do("CONFIG", "SET", "maxmemory", "0")

	s.Do("ACL", "SETUSER", "default", "-set")
	fails("can't run this command")
	s.Do("ACL", "SETUSER", "default", "+@all")

	s.Do("REPLICAOF", "127.0.0.1", "1")
	fails("READONLY")
	s.Do("REPLICAOF", "NO", "ONE")
	cycle(t, l, "n")
}

// A policy that evicts takes locks or counters away.
func TestEvictingPolicyIsReportedOnce(t *testing.T) {
	s := testserver.StartRedis(t, "--maxmemory-policy", "volatile-lru")
	var mu sync.Mutex
	var warnings []error
	l := open(t, dial(t, s.Addr()), fencelock.Observe(func(_ context.Context, e fencelock.Event) {
		if e.Kind == fencelock.EventWarn {
			mu.Lock()
			warnings = append(warnings, e.Err)
			mu.Unlock()
		}
	}))
	for range 3 {
		cycle(t, l, "n")
	}
	eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(warnings) > 0 }, "a warning")
	require.NoError(t, l.Close(long(t)))
	require.Len(t, warnings, 1)
	require.ErrorContains(t, warnings[0], "volatile-lru")
}

// Managed servers refuse much of what we would like to know.
func TestWorksWithoutInfoConfigAndPubSub(t *testing.T) {
	s := testserver.StartRedis(t)
	s.Do("ACL", "SETUSER", "app", "on", ">pw", "allkeys", "resetchannels", "+@all", "-info", "-config", "-client")
	app := func(o *goredis.Options) { o.Username, o.Password = "app", "pw" }
	observe := fencelock.Observe(func(context.Context, fencelock.Event) {})
	l, other := open(t, dial(t, s.Addr(), app), observe), open(t, dial(t, s.Addr(), app), observe)
	lock := acquire(t, l, "n")
	got := make(chan result, 1)
	go func() {
		lock, err := other.Acquire(context.Background(), "n")
		got <- result{Lock: lock, Err: err}
	}()
	calls := s.Calls("EVALSHA")
	eventually(t, func() bool { return s.Calls("EVALSHA") > calls+3 }, "the waiter polls")
	require.Zero(t, queued(s, "fencelock/n"))
	release(t, lock)
	release(t, receive(t, got))
}

func TestReservedKeyIsRefused(t *testing.T) {
	s := testserver.SharedRedis(t)
	l := open(t, dial(t, s.Addr()), fencelock.Prefix(""))
	_, err := l.TryAcquire(long(t), companionOf("n"))
	require.ErrorContains(t, err, "reserved")
	require.NotErrorIs(t, err, fencelock.ErrHeld)
}
