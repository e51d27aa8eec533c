package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock/examples/internal/storytest"
	"github.com/fencelock/fencelock/internal/testserver"
)

func requireRight(t *testing.T, rows []row, want int) {
	t.Helper()
	require.Len(t, rows, want)
	for _, r := range rows {
		require.Empty(t, r.check())
		require.Equal(t, r.Fence != fenceNone && r.Fence != fenceQuorum, r.P95TokenUS > 0, "%+v", r)
	}
}

// The whole story on embedded servers: the faults make phantoms, the fences
// refuse them.
func TestFenceSavesTheSale(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		rows, status := storytest.Tell[row](t, storytest.Build(t, ""), "-d", "3s")
		requireRight(t, rows, 3*len(fences))
		require.Zero(t, status)
	}
}

// With the fence's comparison replaced by true the phantoms come back: it is
// the comparison that saves the sale and nothing else.
func TestPhantomsComeBackWhenTheFenceAdmitsAll(t *testing.T) {
	rows, status := storytest.Tell[row](t, storytest.Build(t, "openfence"), "-d", "3s", "-scenario", "clock-step,pause", "-fence", "quorum,redis,db")
	require.Len(t, rows, 2*3)
	for _, r := range rows {
		require.Positive(t, r.Phantom, "%s, fence %s", r.Scenario, r.Fence)
		require.Zero(t, r.Refused, "%s, fence %s", r.Scenario, r.Fence)
		require.NotEmpty(t, r.check())
	}
	require.Equal(t, 1, status, "the program must say that this is wrong")
}

func TestRealServers(t *testing.T) {
	testserver.Binary(t, "install redis-server", "redis-server")
	testserver.PostgresProgram(t)
	testserver.Binary(t, "install zookeeper and a Java runtime", "java")
	rows, status := storytest.Tell[row](t, storytest.Build(t, ""), "-real", "-d", "3s")
	requireRight(t, rows, 3*(len(fences)+1))
	require.Equal(t, fenceZK, rows[len(fences)].Fence)
	require.Zero(t, status)
}

// A running ZooKeeper goes with embedded servers, too, and keeps nothing.
func TestRunningZooKeeper(t *testing.T) {
	z := testserver.StartZooKeeper(t)
	rows, status := storytest.Tell[row](t, storytest.Build(t, ""), "-zk", z.Addr(), "-d", "3s", "-scenario", "clock-step,pause", "-fence", "zk")
	requireRight(t, rows, 2)
	for _, r := range rows {
		require.Equal(t, fenceZK, r.Fence)
		require.Positive(t, r.Refused)
		require.Zero(t, r.Phantom)
	}
	require.Zero(t, status)
	require.Contains(t, z.Ask("srvr"), "Node count: 5\n", "those of a new server")
}

func TestRushSellsEveryCouponOnce(t *testing.T) {
	rows, status := storytest.Tell[row](t, storytest.Build(t, ""), "-d", "2s", "-scenario", "rush")
	require.Len(t, rows, 2)
	for _, r := range rows {
		require.Empty(t, r.check())
		require.Equal(t, 2000, r.OK)
		require.Equal(t, 2000, r.Rows)
		require.Zero(t, r.SoldOut)
	}
	require.Zero(t, status)
}

// Faults that strike nobody show nothing, and that must not pass for a success:
// a shop that does not work is never met inside its critical section.
func TestAnExperimentThatShowsNothingFails(t *testing.T) {
	rows, status := storytest.Tell[row](t, storytest.Build(t, ""), "-d", "1s", "-scenario", "pause", "-fence", "none,quorum", "-work", "0", "-coupons", "1000000")
	require.Len(t, rows, 2)
	for _, r := range rows {
		require.Len(t, r.check(), 1)
	}
	require.Equal(t, 1, status)
}
