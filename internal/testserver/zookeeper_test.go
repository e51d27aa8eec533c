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

	// A follower that is cut off gives up its leader in the end, and comes back.
	e.CutOff(leader)
	require.Eventually(t, func() bool { return leader.Mode() == "" }, startTime, 10*time.Millisecond)
	e.Heal(leader)
	require.Eventually(t, func() bool { return leader.Mode() == "follower" }, startTime, 10*time.Millisecond)
}
