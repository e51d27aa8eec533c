package etcd_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/etcd"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/locktest"
)

var (
	_ fencelock.Fence       = (*etcd.Fence)(nil)
	_ fencelock.TokenSource = (*etcd.Tokens)(nil)
)

// fences runs the suite with each instance on another member.
func fences(t *testing.T, addrs []string) {
	i := 0
	locktest.RunFence(t, func(t testing.TB) fencelock.Fence {
		i++
		f, err := etcd.NewFence(client(t, addrs[i%len(addrs)]))
		require.NoError(t, err)
		return f
	})
	locktest.RunTokens(t, func(t testing.TB) fencelock.TokenSource {
		i++
		s, err := etcd.NewTokens(client(t, addrs[i%len(addrs)]))
		require.NoError(t, err)
		return s
	})
}

func TestFenceAndDataChangeTogether(t *testing.T) {
	e := testserver.SharedEtcd(t)
	ctx, c, prefix := context.Background(), client(t, e.Addr()), testserver.Prefix(t)
	f, err := etcd.NewFence(c, fencelock.Prefix(prefix))
	require.NoError(t, err)
	data := prefix + "data"
	value := func() string {
		resp, err := c.Get(ctx, data)
		require.NoError(t, err)
		if len(resp.Kvs) == 0 {
			return ""
		}
		return string(resp.Kvs[0].Value)
	}
	require.NoError(t, f.Admit(ctx, "n", 7))
	require.ErrorIs(t, f.Put(ctx, "n", 6, data, "6"), fencelock.ErrStale)
	require.Empty(t, value())
	require.NoError(t, f.Put(ctx, "n", 7, data, "7"))
	require.NoError(t, f.Put(ctx, "n", 7, data, "7 again"))
	require.Equal(t, "7 again", value())
	require.NoError(t, f.Put(ctx, "n", 10, data, "10"), "numbers are compared, not their digits")
	require.ErrorIs(t, f.Put(ctx, "n", 9, data, "9"), fencelock.ErrStale)

	// A transaction of the caller's takes either branch, but only if admitted.
	is := func(v string) []clientv3.Cmp { return []clientv3.Cmp{clientv3.Compare(clientv3.Value(data), "=", v)} }
	put := func(v string) []clientv3.Op { return []clientv3.Op{clientv3.OpPut(data, v)} }
	resp, err := f.Txn(ctx, "n", 11, is("10"), put("then"), put("else"))
	require.NoError(t, err)
	require.True(t, resp.Succeeded)
	require.Positive(t, resp.Header.Revision)
	require.Equal(t, "then", value())
	resp, err = f.Txn(ctx, "n", 11, is("10"), put("then again"), append(put("else"), clientv3.OpGet(data)))
	require.NoError(t, err)
	require.False(t, resp.Succeeded)
	require.Len(t, resp.Responses, 2)
	require.Equal(t, "else", value())
	_, err = f.Txn(ctx, "n", 10, is("10"), put("stale"), put("stale"))
	require.ErrorIs(t, err, fencelock.ErrStale)
	require.Equal(t, "else", value())

	// A write that fails claims nothing.
	require.Error(t, f.Put(ctx, "n", 20, data, "20", clientv3.WithLease(12345)))
	require.NoError(t, f.Admit(ctx, "n", 12))

	// A strict fence lets a token write once, and tells from which one on.
	require.NoError(t, f.Strict().Put(ctx, "n", 12, data, "12"))
	err = f.Strict().Put(ctx, "n", 12, data, "12 again")
	var stale *fencelock.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, fencelock.StaleError{Name: "n", Have: 12, Want: 13}, *stale)
	require.NoError(t, f.Strict().Admit(ctx, "n", 12), "a claim is no write")
	require.NoError(t, f.Strict().Put(ctx, "new", 1, data, "12"), "also as the first of all")
}

// A check costs one trip.
func TestRequestsOfAFence(t *testing.T) {
	e := testserver.StartEtcd(t)
	f, err := etcd.NewFence(client(t, e.Addr()))
	require.NoError(t, err)
	require.NoError(t, f.Admit(long(t), "n", 1))
	before := e.Metric("grpc_server_msg_received_total", `grpc_service="etcdserverpb.KV"`)
	for i := range fencelock.Token(10) {
		require.NoError(t, f.Put(long(t), "n", 2+i, "data", ""))
	}
	require.Equal(t, 10, e.Metric("grpc_server_msg_received_total", `grpc_service="etcdserverpb.KV"`)-before)
}

func TestFenceRefusesBadInput(t *testing.T) {
	_, err := etcd.NewFence(nil)
	require.ErrorContains(t, err, "nil")
	_, err = etcd.NewTokens(nil)
	require.ErrorContains(t, err, "nil")
	c := client(t, testserver.SharedEtcd(t).Addr())
	_, err = etcd.NewFence(c, fencelock.TTL(time.Second))
	require.ErrorContains(t, err, "only Prefix")
	prefix := testserver.Prefix(t)
	f, err := etcd.NewFence(c, fencelock.Prefix(prefix))
	require.NoError(t, err)
	require.Error(t, f.Admit(context.Background(), "", 1))
	require.ErrorContains(t, f.Admit(context.Background(), "n", 0), "no token")
	require.NoError(t, f.Admit(context.Background(), "n", 1))
	_, err = c.Put(context.Background(), prefix+"n%claimed", "not a fence")
	require.NoError(t, err)
	require.ErrorContains(t, f.Admit(context.Background(), "n", 2), "is no fence's")
}
