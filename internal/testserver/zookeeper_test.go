package testserver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestZooKeeper(t *testing.T) {
	z := StartZooKeeper(t)
	require.Equal(t, "standalone", z.Mode())
	require.Empty(t, z.Sessions())
	require.Empty(t, z.Ephemerals())
	z.Pause()
	z.Resume()
	z.Restart()
	require.Equal(t, "standalone", z.Mode())
	z.Kill()
	require.False(t, z.Alive())
	require.Empty(t, z.Mode())
}

func TestSharedZooKeeper(t *testing.T) {
	require.Equal(t, SharedZooKeeper(t).Addr(), SharedZooKeeper(t).Addr())
}

func TestZooKeeperEnsemble(t *testing.T) {
	e := ZooKeeperEnsemble(t)
	leader := e.Leader()
	leader.Kill()
	next := e.Leader()
	require.NotEqual(t, leader.Addr(), next.Addr())
	leader.Restart()
	require.Equal(t, "follower", leader.Mode())
}

func TestLinkedZooKeepers(t *testing.T) {
	e := LinkedZooKeepers(t)
	follower := e.Follower()
	e.CutOff(follower)
	require.Equal(t, "follower", follower.Mode(), "it does not know yet")
	require.Eventually(t, func() bool { return follower.Mode() == "" }, startTime, 10*time.Millisecond)
	e.Heal(follower)
	require.Eventually(t, func() bool { return follower.Mode() == "follower" }, startTime, 10*time.Millisecond)
}
