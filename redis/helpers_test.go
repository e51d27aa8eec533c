package redis_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testlock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/redis"
)

const day = 24 * time.Hour

// These fail the test if they cannot; see testlock.
var (
	long       = testlock.Long
	acquire    = testlock.Acquire
	try        = testlock.Try
	release    = testlock.Release
	cycle      = testlock.Cycle
	receive    = testlock.Receive
	eventually = testlock.Eventually
)

// open returns a Locker that is closed with the test.
func open(t testing.TB, client redis.Client, opts ...fencelock.Option) *redis.Locker {
	t.Helper()
	l, err := redis.New(client, opts...)
	return testlock.Open(t, l, err)
}

// wants starts an Acquire in the background and returns when it is in the
// server's queue behind others that are there.
func wants(t testing.TB, s *testserver.Redis, l fencelock.Locker, name string, opts ...fencelock.Option) <-chan result {
	t.Helper()
	return testlock.Want(t, func() int { return queued(s, "fencelock/"+name) }, l, name, opts...)
}

type result = testlock.Result

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
