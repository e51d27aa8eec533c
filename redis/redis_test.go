package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/redis"
)

func TestSmoke(t *testing.T) {
	s := testserver.SharedRedis(t)
	l, err := redis.New(dial(t, s.Addr()), fencelock.Prefix(testserver.Prefix(t)))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	a, err := l.Acquire(ctx, "x")
	require.NoError(t, err)
	st, err := l.Status(ctx, "x")
	require.NoError(t, err)
	t.Log(st)
	require.NoError(t, a.Release(ctx))
	st, err = l.Status(ctx, "x")
	require.NoError(t, err)
	t.Log(st)
	require.NoError(t, l.Close(ctx))
}
