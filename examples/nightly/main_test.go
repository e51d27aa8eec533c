package main

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/examples/internal/storytest"
	"github.com/fencelock/fencelock/internal/testserver"
)

func TestMain(m *testing.M) { storytest.Main(m) }

func TestTheStoryIsTold(t *testing.T) {
	program := storytest.Build(t, "")
	for name, args := range map[string][]string{
		"inside": nil, "Redis": {"-on", "redis://" + testserver.StartRedis(t).Addr()},
	} {
		t.Run(name, func(t *testing.T) {
			events, status := storytest.Tell[event](t, program, args...)
			require.Zero(t, status)
			require.Len(t, events, 5)
			ran := map[string]int{}
			var last fencelock.Token
			for _, e := range events {
				switch e.What {
				case "ran":
					ran[e.Night]++
					require.Greater(t, e.Token, last)
					last = e.Token
				case "skipped":
					require.Zero(t, e.Token, "the job did not begin")
				default:
					require.Equal(t, "A", e.Replica)
					require.Equal(t, "failed: the disk is full", e.What)
					last = e.Token
				}
			}
			require.Equal(t, map[string]int{"2026-12-01": 1, "2026-12-02": 1}, ran)
		})
	}
}

// However many replicas want to, each night is done once.
func TestEachNightOnce(t *testing.T) {
	on := "redis://" + testserver.StartRedis(t).Addr()
	ran := map[string]*atomic.Int32{"2026-12-01": {}, "2026-12-02": {}, "2026-12-03": {}}
	var all sync.WaitGroup
	for range 8 {
		r, err := open("r", on)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, r.close()) })
		all.Go(func() {
			for _, night := range []string{"2026-12-01", "2026-12-02", "2026-12-03"} {
				_, err := r.run(context.Background(), night, func(context.Context, fencelock.Token) error {
					ran[night].Add(1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for night, n := range ran {
		require.EqualValues(t, 1, n.Load(), night)
	}
}

// A replica that was paused for too long cannot mark the night as done.
func TestALateReplicaMarksNothing(t *testing.T) {
	on := "redis://" + testserver.StartRedis(t).Addr()
	a, err := open("a", on)
	require.NoError(t, err)
	b, err := open("b", on)
	require.NoError(t, err)
	defer func() {
		require.NoError(t, a.close())
		require.NoError(t, b.close())
	}()
	_, err = a.run(t.Context(), "2026-12-02", func(ctx context.Context, token fencelock.Token) error {
		require.NoError(t, b.locker.Break(ctx, name, token)) // its time is over
		ran, err := b.run(context.WithoutCancel(ctx), "2026-12-03", func(context.Context, fencelock.Token) error { return nil })
		require.NoError(t, err)
		require.True(t, ran)
		return nil // it wakes
	})
	require.ErrorIs(t, err, fencelock.ErrStale)
	require.Equal(t, "2026-12-03", b.client.Get(t.Context(), done).Val())
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"-no-such-flag"}} {
		_, _, err := parse(args, io.Discard)
		require.Error(t, err, args)
	}
}
