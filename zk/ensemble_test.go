package zk_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
)

// TestEnsemble does to the members of one ensemble what happens to members.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	e := testserver.ZooKeeperEnsemble(t)
	t.Run("Fence", func(t *testing.T) { fences(t, e.Addrs()) })

	// E7 on ZooKeeper: held through a change of leader. That needs an election within
	// a second, which a busy machine may not have, so there are several.
	t.Run("LeaderKilledUnderAHeldLock", func(t *testing.T) {
		for range 5 {
			leader := e.Leader()
			elected, err := killUnderAHeldLock(t, e, leader)
			leader.Restart()
			if err == nil {
				return
			}
			require.Greater(t, elected, time.Second, err)
			t.Logf("elected after %v: %v", elected, err)
		}
		t.Fatal("no election was quick enough")
	})

	// Another member takes the session over in time, or the holder is told.
	t.Run("MemberOfTheSessionPaused", func(t *testing.T) {
		member, c := e.Follower(), client(t, e.Leader().Addr())
		const ttl = 4 * time.Second
		onlyThere := open(t, []string{member.Addr()}, fencelock.TTL(ttl))
		const more = 5 * ttl // its heartbeats are less than ttl apart
		anywhere := open(t, e.Addrs(), fencelock.TTL(more))
		stuck, free := acquire(t, onlyThere, "stuck"), acquire(t, anywhere, "free")
		start := time.Now()
		member.Pause()
		why := lost(t, stuck)
		require.Equal(t, fencelock.Expired, why.Reason)
		require.Len(t, queue(t, c, "stuck"), 1, "told before it is let go")
		next := acquire(t, open(t, others(e, member), fencelock.TTL(ttl)), "stuck")
		require.Greater(t, next.Token(), stuck.Token())
		release(t, next)
		eventually(t, func() bool { return free.Valid() > more/2-time.Since(start) }, "renewed by another member")
		require.NoError(t, free.Err())
		release(t, free)
		member.Resume()
	})
}

// killUnderAHeldLock returns the time until there is another leader, and why a lock
// that is held meanwhile is lost, if it is.
func killUnderAHeldLock(t *testing.T, e *testserver.ZooKeepers, leader *testserver.ZooKeeper) (elected time.Duration, err error) {
	const ttl = 5 * time.Second
	rest := others(e, leader)
	first := open(t, append([]string{leader.Addr()}, rest...), fencelock.TTL(ttl))
	lock := acquire(t, first, "n")
	token := lock.Token()
	start := time.Now()
	leader.Kill()
	require.NotEqual(t, leader.Addr(), e.Leader().Addr())
	elected = time.Since(start)
	c := client(t, rest...)
	got := wants(t, c, open(t, rest, fencelock.TTL(ttl)), "n")
	// Until it is told, or valid for longer than by a heartbeat of before.
	eventually(t, func() bool { return lock.Err() != nil || lock.Valid() > ttl/2-time.Since(start) }, "lost or renewed")
	err = lock.Err()
	require.Empty(t, got, "two holders")
	if err == nil {
		require.Equal(t, token, lock.Token())
		release(t, lock)
	}
	next := receive(t, got)
	require.Greater(t, next.Token(), token)
	release(t, next)
	empty(t, c, "n")
	return elected, err
}

// Z8: the follower still says that the node exists when the leader has ended the
// session.
func TestFollowerCutOffFromItsLeader(t *testing.T) {
	t.Parallel()
	e := testserver.LinkedZooKeepers(t)
	leader, member := e.Leader(), e.Follower()
	const ttl = 2 * time.Second // less than the time in which the follower notices
	l := open(t, []string{member.Addr()}, fencelock.TTL(ttl))
	c, there := client(t, leader.Addr()), client(t, member.Addr())
	lock := acquire(t, l, "cut")
	node := parent("cut") + "/" + queue(t, there, "cut")[0]
	e.CutOff(member)
	why := lost(t, lock)
	require.Equal(t, fencelock.Expired, why.Reason)
	require.Len(t, queue(t, c, "cut"), 1, "told before it is let go")
	eventually(t, func() bool { return len(queue(t, c, "cut")) == 0 }, "the leader ends the session")
	if exists, _, err := there.Exists(node); err == nil { // else the member has noticed, on a busy machine
		require.True(t, exists, "that reads prove nothing is what this test is about")
	}
	next := acquire(t, open(t, []string{leader.Addr()}, fencelock.TTL(ttl*4)), "cut")
	require.Greater(t, next.Token(), lock.Token())
	release(t, next)
	e.Heal(member)
	again := acquire(t, l, "cut")
	require.Greater(t, again.Token(), next.Token())
	release(t, again)
	empty(t, c, "cut")
}

func others(e *testserver.ZooKeepers, one *testserver.ZooKeeper) []string {
	return slices.DeleteFunc(e.Addrs(), func(addr string) bool { return addr == one.Addr() })
}
