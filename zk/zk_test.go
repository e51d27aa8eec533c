package zk_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testlock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/zk"
)

func one(z *testserver.ZooKeeper) []string { return []string{z.Addr()} }

func TestNewRefusesBadInput(t *testing.T) {
	for what, f := range map[string]func() (*zk.Locker, error){
		"no servers":     func() (*zk.Locker, error) { return zk.New(nil) },
		"is empty":       func() (*zk.Locker, error) { return zk.New([]string{""}) },
		"Dialer(nil)":    func() (*zk.Locker, error) { return zk.New([]string{"x"}, zk.Dialer(nil)) },
		"ACL is empty":   func() (*zk.Locker, error) { return zk.New([]string{"x"}, zk.ACL()) },
		"a session can":  func() (*zk.Locker, error) { return zk.New([]string{"x"}, fencelock.TTL(1000*time.Hour)) },
		"belongs to one": func() (*zk.Locker, error) { return zk.New([]string{"x"}, fencelock.MinToken(1)) },
	} {
		_, err := f()
		require.ErrorContains(t, err, what)
	}
}

func TestATTLOutsideTheServersBoundsIsRefused(t *testing.T) {
	t.Parallel()
	z := testserver.StartZooKeeper(t, "minSessionTimeout=1000", "maxSessionTimeout=9000")
	for ttl, granted := range map[time.Duration]string{500 * time.Millisecond: "1s", 20 * time.Second: "9s"} {
		l := open(t, one(z), fencelock.TTL(ttl))
		for _, f := range []func(context.Context, string, ...fencelock.Option) (fencelock.Lock, error){l.Acquire, l.TryAcquire} {
			_, err := f(long(t), "n")
			require.ErrorContains(t, err, fmt.Sprintf("the server grants a session time-out of %s where TTL(%v)", granted, ttl))
		}
	}
	lock := acquire(t, open(t, one(z), fencelock.TTL(9*time.Second)), "n")
	require.Less(t, lock.Valid(), 4500*time.Millisecond)
	require.Eventually(t, func() bool { return len(z.Sessions()) == 1 }, 20*time.Second, 5*time.Millisecond, "no session is left")
	release(t, lock)
}

func TestUnreachableServersAreAnErrorAtOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	l.Close()
	start := time.Now()
	_, err = open(t, []string{addr, addr}).Acquire(long(t), "n")
	require.ErrorContains(t, err, addr)
	require.ErrorContains(t, err, "refused")
	require.Less(t, time.Since(start), 10*time.Second)
}

func TestAuthAndACL(t *testing.T) {
	z := testserver.SharedZooKeeper(t)
	acl := zk.ACL(gozk.AuthACL(gozk.PermAll)...)
	prefix := fencelock.Prefix("secret/")
	ours := open(t, one(z), prefix, acl, zk.Auth("digest", []byte("us:secret")))
	release(t, acquire(t, ours, "n"))
	theirs := open(t, one(z), prefix, zk.Auth("digest", []byte("them:other")))
	_, err := theirs.Acquire(long(t), "n")
	require.ErrorIs(t, err, gozk.ErrNoAuth)
	require.NotErrorIs(t, err, fencelock.ErrHeld)
	_, err = theirs.TryAcquire(long(t), "n")
	require.ErrorIs(t, err, gozk.ErrNoAuth)
	nobody := open(t, one(z), zk.Auth("no-such-scheme", nil))
	_, err = nobody.Acquire(long(t), "n")
	require.ErrorIs(t, err, gozk.ErrAuthFailed)
}

func TestDialerIsUsed(t *testing.T) {
	z := testserver.SharedZooKeeper(t)
	var dialed atomic.Int32
	l := open(t, []string{"nowhere.invalid"}, zk.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialed.Add(1)
		if addr != "nowhere.invalid:2181" {
			return nil, errors.New("unexpected address " + addr)
		}
		return new(net.Dialer).DialContext(ctx, network, z.Addr())
	}))
	release(t, acquire(t, l, t.Name()))
	require.EqualValues(t, 1, dialed.Load())
}

func TestMinTokenAboveTheZxid(t *testing.T) {
	z := testserver.SharedZooKeeper(t)
	l, c, name := open(t, one(z)), client(t, z.Addr()), t.Name()
	lock := acquire(t, l, name)
	least := lock.Token() + 1<<40
	got := make(chan testlock.Result, 1)
	other := open(t, one(z))
	go func() { // not only when its turn comes
		lock, err := other.Acquire(context.Background(), name, fencelock.MinToken(least))
		got <- testlock.Result{Lock: lock, Err: err}
	}()
	r := <-got
	require.ErrorIs(t, r.Err, fencelock.ErrRegressed)
	release(t, lock)
	empty(t, c, name) // the node of the refused attempt goes in the background
	_, err := l.TryAcquire(long(t), name, fencelock.MinToken(math.MaxInt64))
	require.ErrorIs(t, err, fencelock.ErrRegressed)
	empty(t, c, name)
}

func TestTryAcquireOfATakenLockWritesNothing(t *testing.T) {
	t.Parallel()
	z := testserver.StartZooKeeper(t, noReaping)
	lock := acquire(t, open(t, one(z)), "n")
	other := open(t, one(z))
	_, err := other.TryAcquire(long(t), "n")
	require.ErrorIs(t, err, fencelock.ErrHeld)
	before := writes(t, z)
	for range 10 {
		_, err := other.TryAcquire(long(t), "n")
		require.ErrorIs(t, err, fencelock.ErrHeld)
	}
	require.Equal(t, before, writes(t, z))
	release(t, lock)
}

// Nobody needs the right to change the parent.
func TestNoRightToChangeTheParent(t *testing.T) {
	z := testserver.SharedZooKeeper(t)
	c, name := client(t, z.Addr()), t.Name()
	release(t, acquire(t, open(t, one(z)), name+"/before")) // so that /fencelock is there
	acl := gozk.WorldACL(gozk.PermRead | gozk.PermCreate | gozk.PermDelete)
	_, err := c.Create(parent(name), []byte("data"), gozk.FlagPersistent, acl)
	require.NoError(t, err)
	lock := acquire(t, open(t, one(z)), name)
	got := wants(t, c, open(t, one(z)), name)
	release(t, lock)
	release(t, receive(t, got))
	empty(t, c, name)
	require.NoError(t, c.Delete(parent(name), -1))
}

// Z2
func TestForeignChildrenAreIgnored(t *testing.T) {
	z := testserver.SharedZooKeeper(t)
	l, c, name := open(t, one(z)), client(t, z.Addr()), t.Name()
	release(t, acquire(t, l, name))
	for _, foreign := range []string{"foreign", "lock-0000000000", "_c_x-lock-0000000000"} {
		_, err := c.Create(parent(name)+"/"+foreign, nil, gozk.FlagEphemeral, gozk.WorldACL(gozk.PermAll))
		require.NoError(t, err)
	}
	release(t, acquire(t, l, name))
	lock := acquire(t, l, name)
	got := wants(t, c, open(t, one(z)), name)
	release(t, lock)
	release(t, receive(t, got))
	require.Len(t, queue(t, c, name), 3)
}

// Z3
func TestTokensRiseWhenTheParentIsRemoved(t *testing.T) {
	t.Parallel()
	z := testserver.StartZooKeeper(t, "-Dznode.container.checkIntervalMs=20")
	l, c := open(t, one(z)), client(t, z.Addr())
	var last fencelock.Token
	for range 3 {
		lock := acquire(t, l, "n")
		require.Greater(t, lock.Token(), last)
		last = lock.Token()
		require.Contains(t, queue(t, c, "n")[0], "-lock-0000000000", "the sequence began anew")
		release(t, lock)
		eventually(t, func() bool { ok, _, err := c.Exists("/fencelock"); return err == nil && !ok }, "the server has removed all")
	}
}

// The queue is go-zookeeper's own, too.
func TestExcludesTheClientsOwnLock(t *testing.T) {
	z := testserver.SharedZooKeeper(t)
	l, c, name := open(t, one(z)), client(t, z.Addr()), t.Name()
	lock := acquire(t, l, name)
	theirs := gozk.NewLock(c, parent(name), gozk.WorldACL(gozk.PermAll))
	got := make(chan error, 1)
	go func() { got <- theirs.Lock() }()
	eventually(t, func() bool { return len(queue(t, c, name)) == 2 }, "the other queues")
	after := wants(t, c, open(t, one(z)), name)
	release(t, lock)
	require.NoError(t, <-got)
	_, err := l.TryAcquire(long(t), name)
	require.ErrorIs(t, err, fencelock.ErrHeld)
	require.NoError(t, theirs.Unlock())
	release(t, receive(t, after))
}

// Z7
func TestWaitersThatLeaveLeaveNothing(t *testing.T) {
	z := testserver.SharedZooKeeper(t)
	c, name := client(t, z.Addr()), t.Name()
	lock := acquire(t, open(t, one(z)), name)
	l := open(t, one(z))
	for range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		_, err := l.Acquire(ctx, name)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	eventually(t, func() bool { return len(queue(t, c, name)) == 1 }, "only the holder is left")
	release(t, lock)
	empty(t, c, name)
}

func TestADeletedNodeIsToldWithinASecond(t *testing.T) {
	z := testserver.SharedZooKeeper(t)
	l, c := open(t, one(z)), client(t, z.Addr())
	gone, kept := acquire(t, l, t.Name()), acquire(t, l, t.Name()+"/kept")
	require.NoError(t, c.Delete(parent(gone.Name())+"/"+queue(t, c, gone.Name())[0], -1))
	start := time.Now()
	why := lost(t, gone)
	require.Less(t, time.Since(start), 4*time.Second, "the next heartbeat is 5 seconds away")
	require.Equal(t, fencelock.Deleted, why.Reason)
	require.NoError(t, kept.Err())
	release(t, kept)
	again := acquire(t, l, gone.Name())
	require.Greater(t, again.Token(), gone.Token())
	release(t, again)
}

func TestAWaiterWhoseNodeIsDeletedQueuesAgain(t *testing.T) {
	z := testserver.SharedZooKeeper(t)
	c, name := client(t, z.Addr()), t.Name()
	lock := acquire(t, open(t, one(z)), name)
	got := wants(t, c, open(t, one(z)), name)
	old := queue(t, c, name)[1]
	require.NoError(t, c.Delete(parent(name)+"/"+old, -1))
	eventually(t, func() bool { q := queue(t, c, name); return len(q) == 2 && q[1] != old }, "the waiter has another node")
	release(t, lock)
	release(t, receive(t, got))
}

// No herd: a release is told to one of those who wait.
func TestAReleaseWakesOneWaiter(t *testing.T) {
	t.Parallel()
	const waiters = 50
	z := testserver.StartZooKeeper(t, noReaping)
	c := client(t, z.Addr())
	lock := acquire(t, open(t, one(z)), "n")
	var all []<-chan testlock.Result
	for range waiters {
		all = append(all, wants(t, c, open(t, one(z)), "n"))
	}
	events := func(kind string) int { return metric(z, "zk_sum_node_"+kind+"_watch_count") }
	deleted, children, changed := events("deleted"), events("children"), events("changed")
	for _, got := range all {
		release(t, lock)
		lock = receive(t, got)
	}
	release(t, lock)
	// Each node is watched by the one behind it and, if it lives long, by its owner.
	require.LessOrEqual(t, events("deleted")-deleted, 2*(waiters+1))
	require.Equal(t, children, events("children"))
	require.Equal(t, changed, events("changed"))
	empty(t, c, "n")
}

// A wait that is given up leaves its watch; the next one uses it.
func TestRepeatedWaitsShareOneWatch(t *testing.T) {
	t.Parallel()
	z := testserver.StartZooKeeper(t, noReaping)
	lock := acquire(t, open(t, one(z)), "n")
	l := open(t, one(z))
	watches := func() int { return metric(z, "zk_watch_count") }
	_, err := l.TryAcquire(long(t), "n")
	require.ErrorIs(t, err, fencelock.ErrHeld) // connected
	wait := func() (reads int) {
		before := metric(z, "zk_cnt_readlatency")
		_, err := l.Acquire(long(t), "n", fencelock.Wait(150*time.Millisecond))
		if !errors.Is(err, fencelock.ErrHeld) { // the machine is too busy to know in time
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		return metric(z, "zk_cnt_readlatency") - before
	}
	wait()
	// It looks at the queue and does not set the watch. On a busy machine it may
	// last until its own node is watched, which is a read, too.
	eventually(t, func() bool { return wait() == 1 }, "a wait that costs one read")
	eventually(t, func() bool { return watches() <= 2 }, "one watch of the holder's own, one of the waiter's")
	release(t, lock)
	eventually(t, func() bool { return watches() == 0 }, "none is left")
}

func TestStatus(t *testing.T) {
	t.Parallel()
	z := testserver.StartZooKeeper(t)
	l, c := open(t, one(z)), client(t, z.Addr())
	status := func() fencelock.Status {
		s, err := l.Status(long(t), "n")
		require.NoError(t, err)
		return s
	}
	require.Equal(t, fencelock.Status{}, status())
	eventually(t, func() bool { return len(z.Sessions()) == 1 }, "only the test's own session is left")
	lock := acquire(t, open(t, one(z)), "n", fencelock.Passes(0))
	got := wants(t, c, open(t, one(z)), "n")
	s := status()
	require.WithinDuration(t, time.Now(), s.Since, time.Minute)
	s.Since = time.Time{}
	require.Equal(t, fencelock.Status{Held: true, Token: lock.Token(), Waiters: 1}, s)
	release(t, lock)
	release(t, receive(t, got))
	require.False(t, status().Held)
	_, err := l.Status(long(t), "")
	require.Error(t, err)
}

// An uncontended acquire and release is two writes and one read, which goes with
// the first of them: two trips.
func TestRequestsOfAnUncontendedLock(t *testing.T) {
	t.Parallel()
	z := testserver.StartZooKeeper(t, noReaping)
	p := testserver.NewProxy(t, z.Addr())
	l := open(t, []string{p.Addr()})
	release(t, acquire(t, l, "n"))
	p.Delay(testserver.ToClient, 50*time.Millisecond, 0)
	reads, changes := metric(z, "zk_cnt_readlatency"), writes(t, z)
	const cycles = 10
	fastest := time.Hour
	for range cycles {
		start := time.Now()
		release(t, acquire(t, l, "n"))
		fastest = min(fastest, time.Since(start))
	}
	require.Less(t, fastest, 140*time.Millisecond, "three trips take 150 ms")
	require.Equal(t, 2*cycles, writes(t, z)-changes)
	// On a busy machine a node may live until it is watched, which is a read, too.
	require.Less(t, metric(z, "zk_cnt_readlatency")-reads, cycles*3/2)
}
