package redis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/redis"
)

// R18
func TestMinReplicasShortReleases(t *testing.T) {
	s := testserver.StartRedis(t)
	l := open(t, dial(t, s.Addr()), redis.MinReplicas(1, 20*time.Millisecond))
	for range 2 {
		_, err := l.Acquire(long(t), "n")
		require.ErrorIs(t, err, redis.ErrReplicas)
		require.NotErrorIs(t, err, fencelock.ErrHeld)
		require.Nil(t, s.Do("GET", "fencelock/n"))
	}
}

func TestMinReplicas(t *testing.T) {
	pair := testserver.RedisPair(t)
	s := pair.Primary
	l, other := open(t, dial(t, s.Addr()), redis.MinReplicas(1, 2*time.Second)), open(t, dial(t, s.Addr()), redis.MinReplicas(1, 2*time.Second))
	lock := acquire(t, l, "n")
	require.Equal(t, s.Do("GET", "fencelock/n"), pair.Replica.Do("GET", "fencelock/n"), "the replica has it when Acquire returns")
	_, err := other.TryAcquire(long(t), "n")
	require.ErrorIs(t, err, fencelock.ErrHeld)

	got := wants(t, s, other, "n")
	release(t, lock)
	next := receive(t, got)
	require.Equal(t, s.Do("GET", "fencelock/n"), pair.Replica.Do("GET", "fencelock/n"), "also when it was handed over")

	third := wants(t, s, l, "n")
	pair.Link.Cut()
	release(t, next)
	r := <-third
	require.ErrorIs(t, r.Err, redis.ErrReplicas)
	require.Nil(t, s.Do("GET", "fencelock/n"))
}

func TestRefusedWaitReleases(t *testing.T) {
	s := testserver.StartRedis(t)
	s.Do("ACL", "SETUSER", "default", "-wait")
	l := open(t, dial(t, s.Addr()), redis.MinReplicas(1, 20*time.Millisecond), fencelock.TTL(time.Minute))
	_, err := l.Acquire(long(t), "n")
	require.ErrorContains(t, err, "NOPERM")
	eventually(t, func() bool { return s.Do("GET", "fencelock/n") == nil }, "undone")
}
