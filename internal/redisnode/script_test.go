package redisnode

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock/internal/testserver"
)

var (
	echo = NewBareScript(`return {ARGV[1]}`)
	fail = NewBareScript(`return redis.call('INCR', KEYS[1])`)
)

func long(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestNilClientIsRefused(t *testing.T) {
	_, err := New(nil)
	require.Error(t, err)
	_, err = New((*redis.Client)(nil))
	require.Error(t, err)
	_, err = New((*redis.ClusterClient)(nil))
	require.Error(t, err)
}

// R11
func TestScriptsRunByHashAfterTheFirst(t *testing.T) {
	s := testserver.StartRedis(t)
	n := open(t, dial(t, s.Addr()))
	ctx := long(t)
	for round := range 2 {
		for i := range 5 {
			res, err := n.Run(ctx, echo, []string{"k"}, fmt.Sprint(i))
			require.NoError(t, err)
			got, err := res.Strings()
			require.NoError(t, err)
			require.Equal(t, []string{fmt.Sprint(i)}, got)
		}
		require.Equal(t, round+1, s.Calls("EVAL"), "the text is sent once")
		s.Do("SCRIPT", "FLUSH")
	}
	require.Equal(t, 10, s.Calls("EVALSHA"))
	calls := make([]Call, 50)
	for i := range calls {
		calls[i] = Call{echo, []string{"k"}, []string{fmt.Sprint(i)}}
	}
	for i, res := range n.RunAll(ctx, calls) {
		require.NoError(t, res.Err)
		require.Equal(t, []any{fmt.Sprint(i)}, res.Value)
	}
}

func TestErrorsStayTheClients(t *testing.T) {
	s := testserver.SharedRedis(t)
	n := open(t, dial(t, s.Addr()))
	key := testserver.Prefix(t) + "list"
	s.Do("RPUSH", key, "x")
	for range 2 {
		res, err := n.Run(long(t), fail, []string{key})
		require.ErrorContains(t, err, "WRONGTYPE")
		require.False(t, res.Unsent())
	}
	calls := []Call{{echo, []string{key}, []string{"a"}}, {fail, []string{key}, nil}, {echo, []string{key}, []string{"b"}}}
	res := n.RunAll(long(t), calls)
	require.NoError(t, res[0].Err)
	require.ErrorContains(t, res[1].Err, "WRONGTYPE")
	require.NoError(t, res[2].Err)
}

func TestUnsentIsOnlyWhatWasNeverWritten(t *testing.T) {
	s := testserver.StartRedis(t)
	p := testserver.NewRedisProxy(t, s.Addr())
	n := open(t, dial(t, p.Addr()))
	ctx := long(t)

	p.Cut()
	res, err := n.Run(ctx, echo, []string{"k"}, "x")
	require.Error(t, err)
	require.True(t, res.Unsent(), "no connection was made")
	for _, res := range n.RunAll(ctx, []Call{{echo, []string{"k"}, nil}, {echo, []string{"k"}, nil}}) {
		require.Error(t, res.Err)
		require.True(t, res.Unsent())
	}

	// Sent, then cut off, and the client's retries find no server: its error is
	// one of dialling, and yet the script may have run.
	p.Heal()
	trap := p.Hold(testserver.Named("EVALSHA"))
	ended := make(chan Result, 1)
	go func() {
		res, _ := n.Run(ctx, echo, []string{"k"}, "x")
		ended <- res
	}()
	trap.Wait()
	p.Cut()
	trap.Release()
	res = <-ended
	require.Error(t, res.Err)
	require.False(t, res.Unsent(), "%v", res.Err)
}

func TestCallsEndWithTheirContext(t *testing.T) {
	s := testserver.StartRedis(t)
	n := open(t, dial(t, s.Addr()))
	_, err := n.Run(long(t), echo, []string{"k"}, "x")
	require.NoError(t, err)

	s.Pause()
	start := time.Now()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			res, err := n.Run(ctx, echo, []string{"k"}, "x")
			if !errors.Is(err, context.DeadlineExceeded) || res.Pending == nil && !res.Unsent() {
				t.Errorf("a call to a paused server: %+v", res)
			}
		})
	}
	all.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		for _, res := range n.RunAll(ctx, make([]Call, 0)) {
			t.Error(res)
		}
		for _, res := range n.RunAll(ctx, []Call{{echo, []string{"k"}, nil}, {echo, []string{"k"}, nil}}) {
			if !errors.Is(res.Err, context.DeadlineExceeded) {
				t.Errorf("a batch to a paused server: %+v", res)
			}
		}
	})
	all.Wait()
	require.Less(t, time.Since(start), time.Second)

	res, err := n.Run(doneContext(), echo, []string{"k"}, "x")
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, res.Unsent())

	s.Resume()
	require.NoError(t, n.Wait(long(t)), "abandoned calls end")
	_, err = n.Run(long(t), echo, []string{"k"}, "x")
	require.NoError(t, err)
}

func doneContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestPendingEndsWithTheReply(t *testing.T) {
	s := testserver.StartRedis(t)
	p := testserver.NewRedisProxy(t, s.Addr())
	n := open(t, dial(t, p.Addr()))
	trap := p.Hold(testserver.Named("EVALSHA"))
	ctx, cancel := context.WithCancel(context.Background())
	go func() { trap.Wait(); cancel() }()
	res, err := n.Run(ctx, echo, []string{"k"}, "x")
	require.ErrorIs(t, err, context.Canceled)
	require.NotNil(t, res.Pending)
	select {
	case <-res.Pending:
		t.Fatal("the request is still held")
	default:
	}
	trap.Release()
	select {
	case <-res.Pending:
	case <-long(t).Done():
		t.Fatal("the reply has come")
	}
}

// A hung connection must not hold up the calls behind it.
func TestHungPipelinesAreOvertaken(t *testing.T) {
	s := testserver.StartRedis(t)
	p := testserver.NewRedisProxy(t, s.Addr())
	n := open(t, dial(t, p.Addr()))
	_, err := n.Run(long(t), echo, []string{"k"}, "x")
	require.NoError(t, err)
	var traps []*testserver.Trap
	for range maxFlights {
		trap := p.Hold(testserver.Named("EVALSHA"))
		ctx, cancel := context.WithCancel(context.Background())
		go func() { trap.Wait(); cancel() }()
		_, err := n.Run(ctx, echo, []string{"k"}, "x")
		require.ErrorIs(t, err, context.Canceled)
		traps = append(traps, trap)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second) // below the read time-out
	defer cancel()
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			res, err := n.Run(ctx, echo, []string{"k"}, fmt.Sprint(i))
			if err != nil {
				t.Errorf("behind hung pipelines: %v", err)
			} else if got, _ := res.Strings(); len(got) != 1 || got[0] != fmt.Sprint(i) {
				t.Errorf("got %v, want %d", got, i)
			}
		})
	}
	all.Wait()
	for _, trap := range traps {
		trap.Release()
	}
	require.NoError(t, n.Wait(long(t)))
}

func TestRepliesReachTheirCallers(t *testing.T) {
	s := testserver.SharedRedis(t)
	n := open(t, dial(t, s.Addr()))
	var all sync.WaitGroup
	for g := range 64 {
		all.Go(func() {
			for i := range 100 {
				ctx, cancel := context.WithCancel(context.Background())
				if rand.N(10) == 0 {
					time.AfterFunc(rand.N(500*time.Microsecond), cancel)
				}
				want := fmt.Sprint(g, i)
				res, err := n.Run(ctx, echo, []string{"k"}, want)
				if got, _ := res.Strings(); err == nil && (len(got) != 1 || got[0] != want) {
					t.Errorf("got %v, want %q", got, want)
				} else if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	require.NoError(t, n.Wait(long(t)))
	for _, l := range n.lanes {
		require.Empty(t, l.flights)
		require.Empty(t, l.queue)
	}
}

func TestRejectedIsOnlyWhatWasSentOnce(t *testing.T) {
	s := testserver.StartRedis(t)
	p := testserver.NewRedisProxy(t, s.Addr())
	n := open(t, dial(t, p.Addr()))
	s.Do("RPUSH", "list", "x")
	for range 2 { // by text, by hash
		res, err := n.Run(long(t), fail, []string{"list"})
		require.Error(t, err)
		require.True(t, res.Rejected())
	}
	trap := p.CutReply(testserver.Named("EVALSHA"))
	res, err := n.Run(long(t), fail, []string{"list"})
	trap.Wait()
	require.ErrorContains(t, err, "WRONGTYPE", "the second try got an answer")
	require.False(t, res.Rejected(), "what the first one did is unknown")
	p.Cut()
	res, err = n.Run(long(t), fail, []string{"list"})
	require.Error(t, err)
	require.False(t, res.Rejected())
}
