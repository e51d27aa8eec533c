package etcd_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
)

func TestConformanceOfACluster(t *testing.T) {
	t.Parallel()
	conform(t, testserver.EtcdCluster(t).Members...)
}

// TestCluster does to the members of one cluster what happens to members.
func TestCluster(t *testing.T) {
	e := testserver.EtcdCluster(t)
	t.Run("Fence", func(t *testing.T) { fences(t, e.Addrs()) })

	// E7: held through a change of leader, with the same token.
	t.Run("LeaderKilledUnderAHeldLock", func(t *testing.T) {
		const ttl = 5 * time.Second
		leader := e.Leader()
		lock := acquire(t, open(t, e.Addrs(), fencelock.TTL(ttl)), "n")
		token := lock.Token()
		start := time.Now()
		leader.Kill()
		rest := others(e, leader)
		c := client(t, rest...)
		got := wants(t, c, open(t, rest, fencelock.TTL(ttl)), "n")
		// Until it is told, or valid for longer than by a renewal of before.
		eventually(t, func() bool { return lock.Err() != nil || lock.Valid() > ttl-time.Since(start) }, "lost or renewed")
		require.NoError(t, lock.Err())
		require.Empty(t, got, "two holders")
		require.Equal(t, token, lock.Token())
		release(t, lock)
		next := receive(t, got)
		require.Greater(t, next.Token(), token)
		release(t, next)
		empty(t, c, "n")
		leader.Restart()
	})

	// Who knows other members goes to one of them; who does not is told in time.
	t.Run("MemberPaused", func(t *testing.T) {
		member := e.Follower()
		rest := others(e, member)
		c := client(t, rest...)
		const ttl = 4 * time.Second
		onlyThere := open(t, []string{member.Addr()}, fencelock.TTL(ttl))
		anywhere := open(t, append([]string{member.Addr()}, rest...), fencelock.TTL(5*ttl))
		stuck, free := acquire(t, onlyThere, "stuck"), acquire(t, anywhere, "free")
		waits := wants(t, c, anywhere, "stuck")
		start := time.Now()
		member.Pause()
		why := lost(t, stuck)
		require.Equal(t, fencelock.Expired, why.Reason)
		require.Len(t, queue(t, c, "stuck"), 2, "told before it is let go")
		next := receive(t, waits)
		require.Greater(t, next.Token(), stuck.Token())
		eventually(t, func() bool { return free.Valid() > 5*ttl-time.Since(start) }, "renewed by another member")
		require.NoError(t, free.Err())
		release(t, free)
		release(t, next)
		member.Resume()
		release(t, acquire(t, onlyThere, "stuck"))
	})

	// Without a majority nobody gets a lock, and nobody waits longer than ctx says.
	t.Run("MajorityGone", func(t *testing.T) {
		leader := e.Leader()
		l := open(t, others(e, leader), fencelock.TTL(4*time.Second))
		lock := acquire(t, l, "n")
		member := e.Follower()
		leader.Kill()
		member.Kill()
		require.Equal(t, fencelock.Expired, lost(t, lock).Reason)
		_, err := l.Acquire(long(t), "m", fencelock.Wait(time.Second))
		require.Error(t, err)
		require.NotErrorIs(t, err, fencelock.ErrHeld)
		leader.Restart()
		member.Restart()
		again := acquire(t, l, "n")
		require.Greater(t, again.Token(), lock.Token())
		release(t, again)
	})
}

func others(e *testserver.Etcds, one *testserver.Etcd) []string {
	return slices.DeleteFunc(e.Addrs(), func(addr string) bool { return addr == one.Addr() })
}
