package testserver

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWorkersTalkInLines(t *testing.T) {
	w := StartWorker(t, "echo", "a", "b c")
	require.Equal(t, "args [a b c]", w.Line())
	w.Send("hello %d", 1)
	require.Equal(t, "echo hello 1", w.Line())

	w.Pause()
	w.Send("while paused")
	_, err := w.TryLine(100 * time.Millisecond)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	w.Resume()
	require.Equal(t, "echo while paused", w.Line())
	w.Wait()
	require.False(t, w.Alive())
}

func TestFailedWorkerFailsTheTest(t *testing.T) {
	rec := record(t, func(tb testing.TB) {
		w := StartWorker(tb, "echo")
		w.Send("fail")
		w.Wait()
	})
	require.Contains(t, rec.fatal, "told to fail")
}

func TestKilledWorkerIsGone(t *testing.T) {
	w := StartWorker(t, "echo")
	w.Pause()
	w.Kill() // also when paused
	require.False(t, w.Alive())
	require.False(t, pidExists(w.PID()))
	w.Kill()
}

func TestServersDieWithTheirTestProcess(t *testing.T) {
	w := StartWorker(t, "parent", t.TempDir())
	pid, err := strconv.Atoi(w.Line())
	require.NoError(t, err)
	require.True(t, pidExists(pid))
	w.Kill()
	require.True(t, poll(20*time.Second, func() bool { return !pidExists(pid) }))
}

func TestServersOutliveTheGoroutineThatStartedThem(t *testing.T) {
	var p *Process
	var err error
	started := make(chan struct{})
	dir := t.TempDir()
	go func() {
		defer close(started)
		p, err = start(Command{Path: "sleep", Args: []string{"600"}, Dir: dir})
		runtime.Goexit()
	}()
	<-started
	require.NoError(t, err)
	defer p.end()
	require.False(t, p.exited(200*time.Millisecond))
}

func TestStartTellsWhyAServerIsNotReady(t *testing.T) {
	rec := record(t, func(tb testing.TB) {
		Start(tb, Command{Path: "sh", Args: []string{"-c", "echo no disk >&2; exit 1"}, Dir: tempDir(tb),
			Ready: func(int) error { return fmt.Errorf("not yet") }})
	})
	require.Contains(t, rec.fatal, "it ended")
	require.Contains(t, rec.fatal, "no disk")
}

func TestSharedServersCannotBeHarmed(t *testing.T) {
	SharedRedis(t)
	for name, harm := range map[string]func(*Redis){
		"pause": func(r *Redis) { r.Pause() },
		"kill":  func(r *Redis) { r.Kill() },
		"start": func(r *Redis) { r.Restart() },
		"clock": func(r *Redis) { r.StepClock(time.Hour) },
	} {
		rec := record(t, func(tb testing.TB) { harm(SharedRedis(tb)) })
		require.Contains(t, rec.fatal, "may not be paused, killed or stepped", name)
	}
}

func TestMissingSkipsOrFails(t *testing.T) {
	advice := "install it for " + Prefix(t)
	missing := func(tb testing.TB) { Binary(tb, advice, "no-such-program", "neither-this") }
	t.Setenv(RequireEnv, "")
	var printed strings.Builder
	loud = &printed
	defer func() { loud = os.Stderr }()
	rec := record(t, missing)
	record(t, missing)
	require.Equal(t, 1, strings.Count(printed.String(), "SKIPPED"), "loud, but once")
	require.Contains(t, rec.skip, "no no-such-program or neither-this found: "+advice)
	require.Empty(t, rec.fatal)
	t.Setenv(RequireEnv, "1")
	rec = record(t, missing)
	require.Contains(t, rec.fatal, "no-such-program")
	require.Empty(t, rec.skip)
}

func TestSharedRedisFromTheEnvironment(t *testing.T) {
	own := StartRedis(t)
	t.Setenv(RedisEnv, own.Addr())
	require.Equal(t, own.Addr(), SharedRedis(t).Addr())
	require.Equal(t, "PONG", SharedRedis(t).Do("PING"))
	t.Setenv(RedisEnv, "127.0.0.1:1")
	require.Contains(t, record(t, func(tb testing.TB) { SharedRedis(tb) }).fatal, RedisEnv)
}

func TestTakenPortsAreNotUsed(t *testing.T) {
	first := StartRedis(t)
	taken := first.PID()
	require.ErrorContains(t, first.ready(taken+1), "not "+strconv.Itoa(taken+1), "another server answers there")

	_, port := hostPort(first.Addr())
	asked := 0
	nextPort = func() (int, error) {
		if asked++; asked == 1 {
			return strconv.Atoi(port)
		}
		return freePort()
	}
	defer func() { nextPort = freePort }()
	second := StartRedis(t)
	require.NotEqual(t, first.Addr(), second.Addr())
	require.Equal(t, 2, asked)
	require.NotContains(t, second.Log(), "in use", "the log is the running server's")
}

func TestFreePortsLieBelowOutgoingOnes(t *testing.T) {
	seen := map[int]bool{}
	for range 100 {
		port, err := freePort()
		require.NoError(t, err)
		require.False(t, seen[port])
		require.Less(t, port, outgoingPorts())
		seen[port] = true
	}
}

func TestPrefixesDiffer(t *testing.T) {
	require.NotEqual(t, Prefix(t), Prefix(t))
	require.True(t, strings.HasPrefix(Prefix(t), "TestPrefixesDiffer-"))
}

// recorder is a test whose end is looked at instead of reported.
type recorder struct {
	testing.TB
	fatal, skip string
}

func record(t *testing.T, f func(testing.TB)) *recorder {
	rec := &recorder{TB: t}
	done := make(chan struct{})
	go func() { defer close(done); f(rec) }()
	<-done
	return rec
}

func (r *recorder) Helper() {}

func (r *recorder) Fatal(args ...any) { r.fatal = fmt.Sprint(args...); runtime.Goexit() }

func (r *recorder) Fatalf(format string, args ...any) {
	r.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(format string, args ...any) {
	r.skip = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
