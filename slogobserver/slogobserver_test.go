package slogobserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/mem"
	"github.com/fencelock/fencelock/slogobserver"
)

// record is a line of a JSON handler.
type record struct {
	Level, Msg, Lock, Error string
	Token                   int64
	Took                    time.Duration
	Passed                  bool
}

// day lets everything happen, and returns what was logged.
func day(t *testing.T, level slog.Level) (records []record) {
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		ctx, server := context.Background(), mem.NewServer()
		observe := slogobserver.New(slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: level})))
		l, err := mem.New(server, fencelock.TTL(30*time.Second), fencelock.Observe(observe))
		require.NoError(t, err)
		a, err := l.Acquire(ctx, "a")
		require.NoError(t, err)
		_, err = l.TryAcquire(ctx, "a")
		require.ErrorIs(t, err, fencelock.ErrHeld)
		time.Sleep(11 * time.Second) // a renewal
		require.NoError(t, a.Release(ctx))
		gone, cancel := context.WithCancel(ctx)
		cancel()
		_, err = l.Acquire(gone, "a")
		require.ErrorIs(t, err, context.Canceled)
		b, err := l.Acquire(ctx, "b")
		require.NoError(t, err)
		server.Expire("b")
		<-b.Lost()
		c, err := l.Acquire(ctx, "c")
		require.NoError(t, err)
		server.Fail(errors.New("the disk is full"))
		_, err = l.Acquire(ctx, "d")
		require.Error(t, err)
		time.Sleep(10*time.Second + time.Millisecond) // the first renewal that fails
		server.Fail(nil)
		synctest.Wait()
		require.NoError(t, l.Close(ctx))
		require.Error(t, c.Err())
		synctest.Wait()
		observe(ctx, fencelock.Event{Kind: fencelock.EventWarn, Err: errors.New("it may evict locks")})
	})
	for dec := json.NewDecoder(&log); dec.More(); {
		var r record
		require.NoError(t, dec.Decode(&r))
		records = append(records, r)
	}
	return records
}

func TestWhatIsLogged(t *testing.T) {
	var got []string
	for _, r := range day(t, slog.LevelDebug) {
		got = append(got, r.Level+" "+r.Msg+" "+r.Lock)
		require.Equal(t, r.Msg != "lock warning", r.Lock != "", r)
		switch r.Msg + " " + r.Lock {
		case "lock acquired a":
			require.Positive(t, r.Token)
			require.Empty(t, r.Error)
		case "lock not acquired d":
			require.Contains(t, r.Error, "the disk is full")
			require.Zero(t, r.Token)
		case "lock lost c":
			require.InDelta(t, 10*time.Second, r.Took, float64(time.Second))
		}
	}
	require.Equal(t, []string{
		"DEBUG lock acquired a",
		"DEBUG lock not acquired a",
		"DEBUG lock renewed a",
		"DEBUG lock released a",
		"DEBUG lock not acquired a",
		"DEBUG lock acquired b",
		"WARN lock not renewed b",
		"ERROR lock lost b",
		"DEBUG lock acquired c",
		"WARN lock not acquired d",
		"WARN lock not renewed c",
		"INFO lock lost c",
		"WARN lock warning ",
	}, got)
}

func TestAtTheUsualLevelAllIsQuiet(t *testing.T) {
	for _, r := range day(t, slog.LevelInfo) {
		require.NotEqual(t, "DEBUG", r.Level)
	}
}

func ExampleNew() {
	// Without times, as tests want it.
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "took" || a.Key == "token" || a.Key == "error" {
			return slog.Attr{}
		}
		return a
	}}))
	locker, err := mem.New(mem.NewServer(), fencelock.Observe(slogobserver.New(logger)))
	if err != nil {
		panic(err)
	}
	lock, err := locker.Acquire(context.Background(), "nightly")
	if err != nil {
		panic(err)
	}
	_ = lock.Release(context.Background())
	_ = locker.Close(context.Background())
	// Output:
	// level=DEBUG msg="lock acquired" lock=nightly
	// level=DEBUG msg="lock released" lock=nightly
}
