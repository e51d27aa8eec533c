package redlock

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
)

// R12: one hung node of three delays neither acquire nor renewal nor release.
func TestHungNodeDelaysNothing(t *testing.T) {
	e := start(t, 3)
	events := make(chan fencelock.Event, 1000)
	l := dial(t, e.addrs(), fencelock.TTL(3*time.Second), fencelock.Observe(func(_ context.Context, ev fencelock.Event) {
		if ev.Kind == fencelock.EventRenew {
			events <- ev
		}
	}))
	release(t, acquire(t, l, "warm")) // scripts and connections
	e[2].Pause()
	began := time.Now()
	lock := acquire(t, l, "x")
	other := acquire(t, l, "y")
	release(t, other)
	assert.Less(t, time.Since(began), time.Second)
	for range 4 { // longer than the TTL
		ev := <-events
		require.NoError(t, ev.Err)
		require.Greater(t, lock.Valid(), 2*time.Second, "the renewal waited for the hung node")
	}
	require.NoError(t, lock.Err())
	release(t, lock)
	e[2].Resume()
}

// R13: a renewal that not all nodes confirm must not free the lock, which still
// has its quorum.
func TestPartialRenewalKeepsTheLock(t *testing.T) {
	e := start(t, 3)
	l, other := dial(t, e.addrs(), fencelock.TTL(time.Second)), dial(t, e.addrs())
	lock := acquire(t, l, "x")
	e.eventuallyHeld(t, "x") // else it comes after the deletion
	e[0].Do("DEL", "fencelock/x")
	renewals := e[1].Calls("pexpire")
	eventually(t, generous, "three renewals", func() bool { return e[1].Calls("pexpire") > renewals+3 })
	require.NoError(t, lock.Err())
	require.Zero(t, e[0].Do("EXISTS", "fencelock/x"), "a renewal has put the lock back")
	_, err := other.TryAcquire(within(t, generous), "x")
	require.ErrorIs(t, err, fencelock.ErrHeld)
	eventually(t, generous, "the attempt that failed is gone", func() bool { return e[0].Do("EXISTS", "fencelock/x") == int64(0) })

	e[1].Do("DEL", "fencelock/x") // now the quorum is gone
	select {
	case <-lock.Lost():
	case <-time.After(generous):
		t.Fatal("the loss of the quorum was not told")
	}
	require.ErrorIs(t, lock.Err(), fencelock.ErrLost)
	eventually(t, generous, "the last key is given up", func() bool { return e[2].Do("EXISTS", "fencelock/x") == int64(0) })
}

// R14: an acquire that reaches a slow node after the release must not stay there
// as an orphan.
func TestLateAcquireLeavesNoOrphan(t *testing.T) {
	e := start(t, 3)
	l := dial(t, e.addrs(), fencelock.TTL(time.Minute))
	release(t, acquire(t, l, "warm"))
	e[2].Pause()
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		release(t, acquire(t, l, name))
	}
	e[2].Resume()
	eventually(t, generous, "nothing is left at the slow node", func() bool {
		return len(e.residue()) == 0 && e[2].Do("HEXISTS", keysOf("fencelock/d")[1], "dead") == int64(1)
	})
	for _, name := range names {
		require.Equal(t, e[0].Do("HGET", keysOf("fencelock/" + name)[1], "counter"),
			e[2].Do("HGET", keysOf("fencelock/" + name)[1], "counter"), "the slow node has not learned of the token")
	}
}

// R14, where the release itself does not reach the node: it is repeated until
// the node is back.
func TestReleaseIsRepeatedForANodeThatWasAway(t *testing.T) {
	e := start(t, 3)
	p := testserver.NewProxy(t, e[2].Addr())
	l := dial(t, []string{e[0].Addr(), e[1].Addr(), p.Addr()}, fencelock.TTL(time.Minute), NodeTimeout(500*time.Millisecond))
	lock := acquire(t, l, "x")
	e.eventuallyHeld(t, "x")
	p.Cut()
	release(t, lock)
	j := l.driver.janitors[2]
	eventually(t, generous, "the first release has failed", func() bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.works
	})
	require.EqualValues(t, 1, e[2].Do("EXISTS", "fencelock/x"))
	p.Heal()
	eventually(t, generous, "released", func() bool { return len(e.residue()) == 0 })
}

// A node that is down for long must not make the process pile up goroutines.
func TestDeadNodeCostsOneJanitor(t *testing.T) {
	e := start(t, 3)
	l := dial(t, e.addrs(), fencelock.TTL(3*time.Second))
	e[2].Kill()
	for range 50 {
		release(t, acquire(t, l, "x"))
	}
	j := l.driver.janitors[2]
	eventually(t, generous, "the janitor has it", func() bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.works && len(j.chores) > 0
	})
	eventually(t, generous, "nothing but the janitor runs", func() bool {
		l.driver.crew.mu.Lock()
		defer l.driver.crew.mu.Unlock()
		return l.driver.crew.n == 1
	})
	eventually(t, generous, "the janitor gives up when the TTL is over", func() bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		return !j.works
	})
}

// R10: a clean refusal is followed by no release.
func TestRefusalCostsOneCall(t *testing.T) {
	e := start(t, 3)
	l, other := dial(t, e.addrs(), fencelock.Passes(0)), dial(t, e.addrs())
	lock := acquire(t, l, "x")
	e.eventuallyHeld(t, "x") // else the other is accepted by a minority, and has something to give up
	_, err := other.TryAcquire(within(t, generous), "x")
	require.ErrorIs(t, err, fencelock.ErrHeld)
	var held *fencelock.HeldError
	require.ErrorAs(t, err, &held)
	require.InDelta(t, 30*time.Second, held.For, float64(generous))
	before := e.evals()
	for range 10 {
		_, err := other.TryAcquire(within(t, generous), "x")
		require.ErrorIs(t, err, fencelock.ErrHeld)
	}
	require.NoError(t, other.Close(within(t, generous))) // all answers have come
	// A node that is slow to answer is asked twice at most; a release would double them all.
	require.Less(t, e.evals()-before, 2*10*len(e))
	release(t, lock)
}

func (e ensemble) evals() (n int) {
	for _, s := range e {
		n += s.Calls("eval", "evalsha")
	}
	return n
}

// R11: a server that forgets its scripts.
func TestScriptFlush(t *testing.T) {
	e := start(t, 3)
	l := dial(t, e.addrs(), fencelock.TTL(time.Second))
	lock := acquire(t, l, "x")
	for _, s := range e {
		s.Do("SCRIPT", "FLUSH")
	}
	before := e[0].Calls("pexpire")
	eventually(t, generous, "a renewal", func() bool { return e[0].Calls("pexpire") > before })
	release(t, lock)
	for _, s := range e {
		s.Do("SCRIPT", "FLUSH")
	}
	release(t, acquire(t, l, "x"))
}

// R16, the coupon story: two of three nodes jump, their keys die, and there are
// two holders. The second has the greater token, and the first is told.
func TestClockStepLetsTheSecondHolderPass(t *testing.T) {
	e := start(t, 3)
	const ttl = 3 * time.Second
	l, other := dial(t, e.addrs(), fencelock.TTL(ttl)), dial(t, e.addrs(), fencelock.TTL(ttl))
	first := acquire(t, l, "x")
	e.eventuallyHeld(t, "x") // else a late key outlives the step
	for _, s := range e[:2] {
		s.StepClock(5 * time.Second)
	}
	second := acquire(t, other, "x")
	require.Greater(t, second.Token(), first.Token())
	select {
	case <-first.Lost():
	case <-time.After(generous):
		t.Fatal("the first holder was not told")
	}
	require.Error(t, first.Err())
	require.NoError(t, second.Err())
	release(t, second)

	// And back: the counters lie ahead of the clock for a while.
	for _, s := range e[:2] {
		s.StepClock(-10 * time.Second)
	}
	third := acquire(t, other, "x")
	require.Greater(t, third.Token(), second.Token())
	release(t, third)
}

// A client whose clock is wrong pays a second round; nobody else pays
// anything. R17, R22.
func TestWrongNodeClocks(t *testing.T) {
	e := start(t, 3)
	l := dial(t, e.addrs())
	var last fencelock.Token
	for _, step := range []time.Duration{0, time.Hour, -2 * time.Hour, -300 * 24 * time.Hour, 600 * 24 * time.Hour} {
		for i, s := range e {
			if i < 2 {
				s.StepClock(step)
			}
		}
		lock := acquire(t, l, "x")
		require.Greater(t, lock.Token(), last, "after a step of %v", step)
		last = lock.Token()
		release(t, lock)
	}
}

// R22: MinToken cannot spoil a name for everybody.
func TestMinTokenFarAheadIsRefused(t *testing.T) {
	e := start(t, 3)
	l := dial(t, e.addrs())
	now := fencelock.Token(time.Now().UnixMicro())
	for _, minimum := range []fencelock.Token{math.MaxInt64, math.MaxInt64 - 1, now + 366*day, now + day + hour} {
		_, err := l.Acquire(within(t, generous), "x", fencelock.MinToken(minimum))
		require.Error(t, err)
		require.ErrorContains(t, err, minimum.String())
		require.NotErrorIs(t, err, fencelock.ErrHeld)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
	}
	require.Empty(t, e.residue())
	lock := acquire(t, l, "x")
	require.Less(t, lock.Token(), now+hour)
	release(t, lock)
	lock = acquire(t, l, "x", fencelock.MinToken(now+day-hour))
	require.Greater(t, lock.Token(), now+day-hour)
	release(t, lock)
	lock = acquire(t, l, "x")
	require.Greater(t, lock.Token(), now+day-hour)
	release(t, lock)
}

// A counter at the end of int64 fails closed.
func TestExhaustedCounterFailsClosed(t *testing.T) {
	e := start(t, 3)
	l := dial(t, e.addrs())
	for _, s := range e {
		s.Do("HSET", keysOf("fencelock/x")[1], "counter", "9223372036854775807")
	}
	_, err := l.TryAcquire(within(t, generous), "x")
	require.Error(t, err)
	require.NotErrorIs(t, err, fencelock.ErrHeld)
	require.Empty(t, e.residue())
	// One such node does not spoil the name.
	for _, s := range e[1:] {
		s.Do("HSET", keysOf("fencelock/x")[1], "counter", "1")
	}
	release(t, acquire(t, l, "x"))
}

// R20, over the network: the recorded acquire is sent again after its release.
func TestRecordedAcquireIsRefused(t *testing.T) {
	e := start(t, 3)
	var addrs []string
	var records []*testserver.Recording
	for _, s := range e {
		p := testserver.NewRedisProxy(t, s.Addr())
		addrs, records = append(addrs, p.Addr()), append(records, p.Record(testserver.Named("evalsha", "eval")))
	}
	l := dial(t, addrs)
	release(t, acquire(t, l, "x"))
	eventually(t, generous, "all have released", func() bool { return len(e.residue()) == 0 })
	for _, r := range records {
		for i := range r.Len() {
			_, err := r.Replay(i)
			if err != nil {
				require.ErrorContains(t, err, "NOSCRIPT")
			}
		}
	}
	require.Empty(t, e.residue())
}

// R1: the reply of a successful acquire is lost, and the client tries again.
func TestLostReplyIsNoRefusal(t *testing.T) {
	e := start(t, 3)
	var addrs []string
	var proxies []*testserver.RedisProxy
	for _, s := range e {
		p := testserver.NewRedisProxy(t, s.Addr())
		addrs, proxies = append(addrs, p.Addr()), append(proxies, p)
	}
	l := dial(t, addrs)
	release(t, acquire(t, l, "x"))
	for _, p := range proxies {
		p.CutReply(testserver.Named("evalsha"))
	}
	lock, err := l.TryAcquire(within(t, generous), "x")
	require.NoError(t, err)
	release(t, lock)
}

// Another Redlock client, or a SET NX by hand, that has a majority is respected.
func TestForeignMajorityIsRespected(t *testing.T) {
	e := start(t, 3)
	l := dial(t, e.addrs())
	e[0].Do("SET", "fencelock/x", "somebody", "PX", "60000")
	release(t, acquire(t, l, "x")) // a minority is in nobody's way
	e[1].Do("SET", "fencelock/x", "somebody", "PX", "50000")
	_, err := l.TryAcquire(within(t, generous), "x")
	var held *fencelock.HeldError
	require.ErrorAs(t, err, &held)
	require.InDelta(t, 50*time.Second, held.For, float64(generous), "until the first of them is free")
	require.Equal(t, "somebody", e[0].Do("GET", "fencelock/x"))
	s, err := l.Status(within(t, generous), "x")
	require.NoError(t, err)
	require.True(t, s.Held)
	require.Zero(t, s.Token)
}

func TestStatus(t *testing.T) {
	e := start(t, 5)
	l, other := dial(t, e.addrs()), dial(t, e.addrs())
	status := func() fencelock.Status {
		s, err := l.Status(within(t, generous), "x")
		require.NoError(t, err)
		return s
	}
	require.Equal(t, fencelock.Status{}, status())
	lock := acquire(t, l, "x", fencelock.TTL(20*time.Second))
	s := status()
	require.True(t, s.Held)
	require.Equal(t, lock.Token(), s.Token)
	require.InDelta(t, 20*time.Second, s.For, float64(generous))
	require.Zero(t, s.Waiters)

	ctx, cancel := context.WithCancel(context.Background())
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if lock, err := other.Acquire(ctx, "x"); err == nil {
			_ = lock.Release(context.Background())
		} else if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	eventually(t, generous, "the waiter is known", func() bool { return status().Waiters == 1 })
	e[0].Kill()
	e[1].Kill()
	require.True(t, status().Held, "three of five are left")
	cancel()
	waiting.Wait()
	eventually(t, generous, "the waiter is gone", func() bool { return status().Waiters == 0 })
	release(t, lock)
	require.False(t, status().Held)
	require.GreaterOrEqual(t, status().Token, lock.Token())
	e[2].Kill()
	_, err := l.Status(within(t, generous), "x")
	require.ErrorContains(t, err, "2 of 5 nodes answered")
	_, err = l.Status(within(t, generous), "")
	require.Error(t, err)
	e[0].Restart()
	e[1].Restart()
	e[2].Restart()
}
