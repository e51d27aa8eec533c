package zk_test

import (
	"context"
	"testing"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/locktest"
	"github.com/fencelock/fencelock/zk"
)

var (
	_ fencelock.Fence       = (*zk.Fence)(nil)
	_ fencelock.TokenSource = (*zk.Tokens)(nil)
	_ zk.Client             = (*gozk.Conn)(nil)
)

// fences runs the suite with each instance on another member.
func fences(t *testing.T, addrs []string) {
	i := 0
	locktest.RunFence(t, func(t testing.TB) fencelock.Fence {
		i++
		f, err := zk.NewFence(client(t, addrs[i%len(addrs)]))
		require.NoError(t, err)
		return f
	})
	locktest.RunTokens(t, func(t testing.TB) fencelock.TokenSource {
		i++
		s, err := zk.NewTokens(client(t, addrs[i%len(addrs)]))
		require.NoError(t, err)
		return s
	})
}

func TestFenceAndDataChangeTogether(t *testing.T) {
	z := testserver.SharedZooKeeper(t)
	ctx, c := context.Background(), client(t, z.Addr())
	f, err := zk.NewFence(c, fencelock.Prefix(testserver.Prefix(t)))
	require.NoError(t, err)
	data, err := c.Create("/fence-data", []byte("0"), gozk.FlagSequence, gozk.WorldACL(gozk.PermAll))
	require.NoError(t, err)
	value := func() string {
		b, _, err := c.Get(data)
		require.NoError(t, err)
		return string(b)
	}
	require.NoError(t, f.Admit(ctx, "n", 7))
	require.ErrorIs(t, f.Set(ctx, "n", 6, data, []byte("6")), fencelock.ErrStale)
	require.Equal(t, "0", value())
	require.NoError(t, f.Set(ctx, "n", 7, data, []byte("7")))
	require.NoError(t, f.Set(ctx, "n", 7, data, []byte("7 again")))
	require.Equal(t, "7 again", value())

	// A write that fails claims nothing.
	_, err = f.Multi(ctx, "n", 9, &gozk.SetDataRequest{Path: data, Data: nil, Version: 99})
	require.ErrorIs(t, err, gozk.ErrBadVersion)
	require.NoError(t, f.Admit(ctx, "n", 8))

	// A strict fence lets a token write once, and tells from which one on.
	require.NoError(t, f.Strict().Set(ctx, "n", 8, data, []byte("8")))
	err = f.Strict().Set(ctx, "n", 8, data, []byte("8 again"))
	var stale *fencelock.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, fencelock.StaleError{Name: "n", Have: 8, Want: 9}, *stale)
	require.NoError(t, f.Strict().Admit(ctx, "n", 8), "a claim is no write")
	require.Equal(t, "8", value())
	results, err := f.Multi(ctx, "n", 9, &gozk.SetDataRequest{Path: data, Data: []byte("9"), Version: -1})
	require.NoError(t, err)
	require.Len(t, results, 1)
	_, err = f.Multi(ctx, "n", 9)
	require.Error(t, err)
}

func TestFenceRefusesBadInput(t *testing.T) {
	_, err := zk.NewFence(nil)
	require.ErrorContains(t, err, "nil")
	_, err = zk.NewTokens((*gozk.Conn)(nil))
	require.ErrorContains(t, err, "nil")
	c := client(t, testserver.SharedZooKeeper(t).Addr())
	_, err = zk.NewFence(c, fencelock.TTL(fenceTTL))
	require.ErrorContains(t, err, "only")
	_, err = zk.NewFence(c, zk.Auth("digest", nil))
	require.Error(t, err)
	prefix := testserver.Prefix(t)
	f, err := zk.NewFence(c, fencelock.Prefix(prefix))
	require.NoError(t, err)
	require.Error(t, f.Admit(context.Background(), "", 1))
	require.NoError(t, f.Admit(context.Background(), "n", 1))
	_, err = c.Set("/"+prefix+"_fence/n", []byte("not a fence"), -1)
	require.NoError(t, err)
	require.ErrorContains(t, f.Admit(context.Background(), "n", 2), "is no fence's")
}

const fenceTTL = 1e9
