package testserver

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEtcd(t *testing.T) {
	e := StartEtcd(t)
	require.NoError(t, e.ready(0))
	require.Equal(t, 1, e.Metric("etcd_server_has_leader"))
	require.Zero(t, e.Metric("grpc_server_handled_total", `grpc_method="Txn"`))
	id := e.id()
	e.Pause()
	require.Empty(t, e.id())
	e.Resume()
	e.Restart()
	require.Equal(t, id, e.id())
	e.Kill()
	require.False(t, e.Alive())
}

func TestSharedEtcd(t *testing.T) {
	require.Equal(t, SharedEtcd(t).Addr(), SharedEtcd(t).Addr())
}

func TestEtcdCluster(t *testing.T) {
	c := EtcdCluster(t)
	leader := c.Leader()
	require.NotEqual(t, leader.Addr(), c.Follower().Addr())
	leader.Pause()
	next := c.Leader()
	require.NotEqual(t, leader.Addr(), next.Addr())
	leader.Resume()
	next.Kill()
	require.NotEqual(t, next.Addr(), c.Leader().Addr())
	next.Restart()
	require.Len(t, c.Addrs(), 3)
	require.NotEqual(t, c.Leader().Addr(), c.Follower().Addr())
}
