package zk_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/adler32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testlock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/zk"
)

// Z1, on a real server: its snapshot is given a counter shortly before the wrap.
func TestOneHolderWhereTheCounterWraps(t *testing.T) {
	t.Parallel()
	z := testserver.StartZooKeeper(t, noReaping, "-Dzookeeper.digest.enabled=false")
	release(t, acquire(t, open(t, one(z)), "n"))
	z.Restart() // takes a snapshot of what it has
	z.Kill()
	setCounter(t, z, parent("n"), math.MaxInt32-2)
	z.Restart()

	c := client(t, z.Addr())
	lock := acquire(t, open(t, one(z)), "n")
	require.Contains(t, queue(t, c, "n")[0], "-lock-2147483645")
	var all []<-chan testlock.Result
	for range 6 {
		all = append(all, wants(t, c, open(t, one(z)), "n"))
	}
	require.Regexp(t, "-lock-2147483647 .*-lock-(2147483647|-2147483648)", strings.Join(queue(t, c, "n"), " "))
	for _, got := range all {
		_, err := open(t, one(z)).TryAcquire(long(t), "n")
		require.ErrorIs(t, err, fencelock.ErrHeld)
		for _, other := range all {
			require.Empty(t, other, "two holders")
		}
		last := lock.Token()
		release(t, lock)
		lock = receive(t, got)
		require.Greater(t, lock.Token(), last)
	}
	release(t, lock)
	empty(t, c, "n")
}

// setCounter changes the number of the next sequential child of a node in the
// latest snapshot of a server that is down, and removes the log, which would lead
// to other numbers.
func setCounter(t *testing.T, z *testserver.ZooKeeper, path string, next int32) {
	t.Helper()
	snapshots, err := filepath.Glob(filepath.Join(z.DataDir(), "snapshot.*"))
	require.NoError(t, err)
	slices.SortFunc(snapshots, func(a, b string) int { return len(a)*1000 - len(b)*1000 + strings.Compare(a, b) })
	file := snapshots[len(snapshots)-1]
	b, err := os.ReadFile(file)
	require.NoError(t, err)

	at := bytes.Index(b, append(binary.BigEndian.AppendUint32(nil, uint32(len(path))), path...))
	require.Positive(t, at, "the node is in the snapshot")
	at += 4 + len(path)
	if size := int32(binary.BigEndian.Uint32(b[at:])); size > 0 {
		at += int(size)
	}
	at += 4 + 8 + 4*8 + 4 // data, ACL, czxid, mzxid, ctime, mtime, version
	binary.BigEndian.PutUint32(b[at:], uint32(next))

	const seal = 8 + 4 + 1 // the sum, and "/"
	binary.BigEndian.PutUint64(b[len(b)-seal:], uint64(adler32.Checksum(b[:len(b)-seal])))
	require.NoError(t, os.WriteFile(file, b, 0o600))
	logs, err := filepath.Glob(filepath.Join(z.DataDir(), "log.*"))
	require.NoError(t, err)
	for _, log := range logs {
		require.NoError(t, os.Remove(log))
	}
}

// cutAfterCreate has l's create done at the server and its answer lost. Between
// the two it calls meanwhile with the node's name.
func cutAfterCreate(t *testing.T, p *testserver.Proxy, c *gozk.Conn, l *zk.Locker, name string, meanwhile func(node string)) <-chan testlock.Result {
	t.Helper()
	release(t, acquire(t, l, name)) // connected, and the parent is there
	p.Freeze(testserver.ToClient)
	got := wants(t, c, l, name)
	if meanwhile != nil {
		meanwhile(queue(t, c, name)[0])
	}
	p.Cut()
	p.Heal()
	return got
}

func TestANodeWhoseCreationWasNotConfirmedIsFoundAgain(t *testing.T) {
	z := testserver.SharedZooKeeper(t)
	p, c, name := testserver.NewProxy(t, z.Addr()), client(t, z.Addr()), t.Name()
	l := open(t, []string{p.Addr()})
	var node string
	lock := receive(t, cutAfterCreate(t, p, c, l, name, func(n string) { node = n }))
	require.Equal(t, []string{node}, queue(t, c, name), "and there is no other")
	_, stat, err := c.Get(parent(name) + "/" + node)
	require.NoError(t, err)
	require.EqualValues(t, stat.Czxid, lock.Token()>>12)
	release(t, lock)
	empty(t, c, name)
}

// Z7: nobody wants the node any more when it is found.
func TestANodeThatNobodyWantsAnyMoreIsRemoved(t *testing.T) {
	z := testserver.SharedZooKeeper(t)
	p, c, name := testserver.NewProxy(t, z.Addr()), client(t, z.Addr()), t.Name()
	l := open(t, []string{p.Addr()})
	kept := acquire(t, l, name+"/kept") // so that the session goes on
	release(t, acquire(t, l, name))
	p.Freeze(testserver.ToClient)
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan error, 1)
	go func() {
		_, err := l.Acquire(ctx, name)
		got <- err
	}()
	eventually(t, func() bool { return len(queue(t, c, name)) == 1 }, "the node is made")
	cancel()
	require.ErrorIs(t, <-got, context.Canceled)
	p.Cut()
	p.Heal()
	empty(t, c, name)
	require.NoError(t, kept.Err())
	release(t, kept)
}

// Z4: a node with the attempt's id, but of another session.
func TestANodeOfAnotherSessionIsNotTakenForOurs(t *testing.T) {
	z := testserver.SharedZooKeeper(t)
	p, c, name := testserver.NewProxy(t, z.Addr()), client(t, z.Addr()), t.Name()
	l := open(t, []string{p.Addr()})
	var theirs string
	got := cutAfterCreate(t, p, c, l, name, func(node string) {
		require.NoError(t, c.Delete(parent(name)+"/"+node, -1))
		var err error
		theirs, err = c.Create(parent(name)+"/"+node[:len(node)-10], nil, gozk.FlagEphemeralSequential, gozk.WorldACL(gozk.PermAll))
		require.NoError(t, err)
	})
	lock := receive(t, got)
	for _, node := range queue(t, c, name) {
		require.NotEqual(t, theirs, parent(name)+"/"+node)
		_, stat, err := c.Get(parent(name) + "/" + node)
		require.NoError(t, err)
		require.NotEqual(t, c.SessionID(), stat.EphemeralOwner)
		require.GreaterOrEqual(t, int64(lock.Token()>>12), stat.Czxid)
	}
	release(t, lock)
}

// Z5, Z6: the session expires while nothing is heard of the server. The holder is
// told before, and the Locker works again.
func TestASessionThatExpiredIsReplaced(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	z := testserver.StartZooKeeper(t)
	p, c := testserver.NewProxy(t, z.Addr()), client(t, z.Addr())
	l := open(t, []string{p.Addr()}, fencelock.TTL(ttl))
	for range 2 {
		lock := acquire(t, l, "n")
		p.Drop(testserver.Both)
		why := lost(t, lock)
		require.Len(t, queue(t, c, "n"), 1, "told before the server lets it go")
		require.Contains(t, []fencelock.Reason{fencelock.Expired, fencelock.SessionGone}, why.Reason)
		next := acquire(t, open(t, one(z), fencelock.TTL(ttl)), "n")
		require.Greater(t, next.Token(), lock.Token())
		p.Heal()
		got := wants(t, c, l, "n")
		release(t, next)
		again := receive(t, got)
		require.Greater(t, again.Token(), next.Token())
		release(t, again)
		require.ErrorIs(t, lock.Release(long(t)), fencelock.ErrLost)
	}
	empty(t, c, "n")
}

// A server that restarts gives its sessions back; the lock is held all the time.
func TestAServersRestartIsSurvived(t *testing.T) {
	t.Parallel()
	z := testserver.StartZooKeeper(t)
	l := open(t, one(z), fencelock.TTL(60*time.Second))
	lock := acquire(t, l, "n")
	waiting := wants(t, client(t, z.Addr()), open(t, one(z), fencelock.TTL(60*time.Second)), "n")
	z.Restart()
	c := client(t, z.Addr())
	require.Len(t, queue(t, c, "n"), 2)
	require.NoError(t, lock.Err())
	require.Empty(t, waiting)
	eventually(t, func() bool { return lock.Release(long(t)) == nil }, "released, when the server is found again")
	release(t, receive(t, waiting))
	empty(t, c, "n")
}
