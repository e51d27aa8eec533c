package redis_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/redis"
)

const day = 24 * time.Hour

// open returns a Locker that is closed with the test.
func open(t testing.TB, client redis.Client, opts ...fencelock.Option) *redis.Locker {
	t.Helper()
	l, err := redis.New(client, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := l.Close(long(t)); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

// long is a ctx that outlasts whatever a slow machine makes of the test.
func long(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func acquire(t testing.TB, l fencelock.Locker, name string, opts ...fencelock.Option) fencelock.Lock {
	t.Helper()
	lock, err := l.Acquire(long(t), name, opts...)
	require.NoError(t, err)
	return lock
}

func try(t testing.TB, l fencelock.Locker, name string, opts ...fencelock.Option) fencelock.Lock {
	t.Helper()
	lock, err := l.TryAcquire(long(t), name, opts...)
	require.NoError(t, err)
	return lock
}

func release(t testing.TB, lock fencelock.Lock) {
	t.Helper()
	require.NoError(t, lock.Release(long(t)))
}

// cycle acquires and releases name and returns the token.
func cycle(t testing.TB, l fencelock.Locker, name string, opts ...fencelock.Option) fencelock.Token {
	t.Helper()
	lock := acquire(t, l, name, opts...)
	release(t, lock)
	return lock.Token()
}

// wants starts an Acquire in the background and returns when it is in the
// server's queue behind others that are there.
func wants(t testing.TB, s *testserver.Redis, l fencelock.Locker, name string, opts ...fencelock.Option) <-chan result {
	t.Helper()
	before := queued(s, "fencelock/"+name)
	got := make(chan result, 1)
	ctx := long(t)
	go func() {
		lock, err := l.Acquire(ctx, name, opts...)
		got <- result{lock, err}
	}()
	eventually(t, func() bool { return queued(s, "fencelock/"+name) == before+1 }, "the waiter queues")
	return got
}

type result struct {
	lock fencelock.Lock
	err  error
}

func receive(t testing.TB, got <-chan result) fencelock.Lock {
	t.Helper()
	select {
	case r := <-got:
		require.NoError(t, r.err)
		return r.lock
	case <-time.After(30 * time.Second):
		t.Fatal("no lock")
		return nil
	}
}

func eventually(t testing.TB, f func() bool, what string) {
	t.Helper()
	require.Eventually(t, f, 20*time.Second, 5*time.Millisecond, what)
}

// companionOf is the documented name of a companion key.
func companionOf(key string) string { return "{" + key + "}:fencelock:" }

func queued(s *testserver.Redis, key string) int {
	q, _ := s.Do("HGET", companionOf(key), "q").(string)
	return strings.Count(q, ";")
}

func counter(t testing.TB, s *testserver.Redis, key string) int64 {
	t.Helper()
	c, _ := s.Do("HGET", companionOf(key), "c").(string)
	n, err := strconv.ParseInt(c, 10, 64)
	require.NoError(t, err)
	return n
}

// serverMicros is the server's clock.
func serverMicros(t testing.TB, s *testserver.Redis) int64 {
	t.Helper()
	now := s.Do("TIME").([]any)
	sec, err := strconv.ParseInt(now[0].(string), 10, 64)
	require.NoError(t, err)
	us, err := strconv.ParseInt(now[1].(string), 10, 64)
	require.NoError(t, err)
	return sec*1_000_000 + us
}
