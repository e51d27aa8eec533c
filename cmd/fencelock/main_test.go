//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testlock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/redis"
)

// mainEnv makes this binary the command. What it says is done before.
const mainEnv = "FENCELOCK_TEST_MAIN"

func TestMain(m *testing.M) {
	if how := os.Getenv(mainEnv); how != "" {
		if how == "init" {
			adopt()
		}
		_ = os.Unsetenv(mainEnv)
		os.Exit(run(append([]string{"fencelock"}, os.Args[1:]...)))
	}
	testserver.Main(m)
}

// adopt makes this process the parent of orphans, as process 1 is.
var adopt func()

// patience is for a busy machine.
const patience = 30 * time.Second

// command is a running fencelock.
type command struct {
	t   *testing.T
	cmd *exec.Cmd
	out *bufio.Reader // the job's standard output
	err strings.Builder
}

// fence starts a fencelock with an environment of its own.
func fence(t *testing.T, env []string, args ...string) *command {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c := &command{t: t, cmd: exec.Command(self, args...)}
	c.cmd.Env = append(os.Environ(), mainEnv+"=1", "GORACE=atexit_sleep_ms=0") // it would wait a second for late reports
	c.cmd.Env = append(c.cmd.Env, env...)
	c.cmd.SysProcAttr = die()
	c.cmd.SysProcAttr.Setpgid = true // the terminal's signals are not part of the test
	c.cmd.Stderr = &c.err
	stdout, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	c.out = bufio.NewReader(stdout)
	require.NoError(t, c.cmd.Start())
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	})
	return c
}

// line waits for a line of the job's.
func (c *command) line() string {
	c.t.Helper()
	kill := time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() })
	defer kill.Stop()
	line, err := c.out.ReadString('\n')
	require.NoError(c.t, err, "a line of output, after it %s", line)
	return strings.TrimSuffix(line, "\n")
}

func (c *command) signal(s syscall.Signal) {
	c.t.Helper()
	require.NoError(c.t, c.cmd.Process.Signal(s))
}

// wait waits for the end and returns the exit code and what was printed on
// both outputs.
func (c *command) wait() (code int, stdout, stderr string) {
	c.t.Helper()
	kill := time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() })
	defer kill.Stop()
	var rest strings.Builder
	_, _ = c.out.WriteTo(&rest)
	err := c.cmd.Wait()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		require.NoError(c.t, err)
	}
	return c.cmd.ProcessState.ExitCode(), rest.String(), c.err.String()
}

// place is a Redis with a name of the test's own.
type place struct {
	t      *testing.T
	server *testserver.Redis
	prefix string
	*redis.Locker
}

func somewhere(t *testing.T) place {
	t.Helper()
	server, prefix := testserver.SharedRedis(t), testserver.Prefix(t)
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	l, err := redis.New(client, fencelock.Prefix(prefix))
	return place{t, server, prefix, testlock.Open(t, l, err)}
}

// fence starts a fencelock for the name x. The arguments are the command, its
// options, and perhaps a job.
func (p place) fence(args ...string) *command {
	p.t.Helper()
	args = append([]string{args[0], "--name", "x", "--prefix", p.prefix}, args[1:]...)
	return fence(p.t, []string{"FENCELOCK_ON=redis://" + p.server.Addr()}, args...)
}

// idle is what a job does that waits for a signal, but not for ever.
const idle = "i=0; while [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done"

// script is a job for a shell.
func script(text string) []string { return []string{"--", "/bin/sh", "-c", text} }

func (p place) status() fencelock.Status {
	p.t.Helper()
	s, err := p.Status(testlock.Long(p.t), "x")
	require.NoError(p.t, err)
	return s
}

// steal deletes the lock as an operator would.
func (p place) steal() { p.server.Do("DEL", p.prefix+"x") }

func TestTheJobKnowsItsLock(t *testing.T) {
	p := somewhere(t)
	c := p.fence(append([]string{"run"}, script(`echo "$FENCELOCK_NAME $FENCELOCK_TOKEN"; exec 2>/dev/null; trap 'exit 0' USR1; `+idle)...)...)
	said := c.line()
	s := p.status()
	require.True(t, s.Held)
	require.Equal(t, "x "+s.Token.String(), said)
	c.signal(syscall.SIGUSR1)
	code, _, stderr := c.wait()
	require.Zero(t, code)
	require.Empty(t, stderr)
	require.False(t, p.status().Held, "released")
}

func TestTheJobsEndIsOurs(t *testing.T) {
	p := somewhere(t)
	for text, want := range map[string]int{
		"exit 0": 0, "exit 1": 1, "exit 75": 75, "exit 255": 255, "kill -KILL $$": 128 + 9, "kill -TERM $$": 128 + 15,
	} {
		code, stdout, stderr := p.fence(append([]string{"run"}, script(text)...)...).wait()
		require.Equal(t, want, code, text)
		require.Empty(t, stdout+stderr)
	}
	before := p.status().Token
	for path, want := range map[string]int{"/no/such/program": exitNotFound, "no-such-program": exitNotFound, os.DevNull: exitNotRunnable} {
		code, _, stderr := p.fence("run", "--", path).wait()
		require.Equal(t, want, code, path)
		require.Contains(t, stderr, path)
	}
	require.Equal(t, before, p.status().Token, "the lock was not even asked for")
}

func TestSignalsBeforeTheGrant(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		t.Run(s.String(), func(t *testing.T) {
			p := somewhere(t)
			lock := testlock.Acquire(t, p, "x")
			c := p.fence(append([]string{"run"}, script("echo ran")...)...)
			testlock.Eventually(t, func() bool { return p.status().Waiters == 1 }, "it waits")
			c.signal(syscall.SIGUSR1) // means nothing yet
			c.signal(s)
			code, stdout, _ := c.wait()
			require.Equal(t, 128+int(s), code)
			require.Empty(t, stdout, "the job did not run")
			testlock.Eventually(t, func() bool { return p.status().Waiters == 0 }, "it has left the queue")
			testlock.Release(t, lock)
		})
	}
}

func TestSignalsReachTheJob(t *testing.T) {
	for s, name := range map[syscall.Signal]string{
		syscall.SIGTERM: "TERM", syscall.SIGINT: "INT", syscall.SIGHUP: "HUP", syscall.SIGQUIT: "QUIT", syscall.SIGUSR1: "USR1",
		syscall.SIGWINCH: "WINCH",
	} {
		t.Run(name, func(t *testing.T) {
			p := somewhere(t)
			c := p.fence(append([]string{"run"}, script(`exec 2>/dev/null; trap 'echo heard; exit 3' `+name+`; echo ready; `+idle)...)...)
			require.Equal(t, "ready", c.line())
			c.signal(s)
			require.Equal(t, "heard", c.line())
			code, _, stderr := c.wait()
			require.Equal(t, 3, code, "the job's own code")
			require.Empty(t, stderr)
			require.False(t, p.status().Held)
		})
	}
	t.Run("one that the job does not catch", func(t *testing.T) {
		p := somewhere(t)
		c := p.fence(append([]string{"run"}, script(`echo ready; exec sleep 60`)...)...)
		require.Equal(t, "ready", c.line())
		c.signal(syscall.SIGTERM)
		code, _, _ := c.wait()
		require.Equal(t, 128+15, code)
	})
}

func TestALossEndsTheJob(t *testing.T) {
	p := somewhere(t)
	c := p.fence(append([]string{"run", "--ttl", "300ms"}, script(`exec 2>/dev/null; trap 'echo told; exit 0' TERM; echo ready; `+idle)...)...)
	require.Equal(t, "ready", c.line())
	p.steal()
	require.Equal(t, "told", c.line())
	code, _, stderr := c.wait()
	require.Equal(t, exitLost, code, "whatever the job says")
	require.Contains(t, stderr, "no longer held")
}

// A job that is stopped can hear of it.
func TestALossWakesAStoppedJob(t *testing.T) {
	p := somewhere(t)
	c := p.fence(append([]string{"run", "--ttl", "300ms", "--grace", "20s"}, script(`trap 'echo told; exit 0' TERM; echo ready; kill -STOP $$`)...)...)
	require.Equal(t, "ready", c.line())
	p.steal()
	require.Equal(t, "told", c.line())
	code, _, _ := c.wait()
	require.Equal(t, exitLost, code)
}

// A lock that was lost just before the job's end was lost all the same.
func TestALossThatOnlyTheReleaseShows(t *testing.T) {
	p := somewhere(t)
	c := p.fence(append([]string{"run", "--ttl", "1h"}, script(`exec 2>/dev/null; echo ready; trap 'exit 0' USR1; `+idle)...)...)
	require.Equal(t, "ready", c.line())
	p.steal()
	c.signal(syscall.SIGUSR1)
	code, _, stderr := c.wait()
	require.Equal(t, exitLost, code)
	require.Contains(t, stderr, "no longer held")
}

func TestMaxHold(t *testing.T) {
	p := somewhere(t)
	c := p.fence(append([]string{"run", "--max-hold", "100ms"}, script(`exec 2>/dev/null; trap 'echo told; exit 0' TERM; echo ready; `+idle)...)...)
	code, stdout, stderr := c.wait()
	require.Equal(t, exitMaxHold, code)
	require.Equal(t, "ready\ntold\n", stdout)
	require.Contains(t, stderr, "--max-hold")
	require.False(t, p.status().Held)
}

func TestHeld(t *testing.T) {
	p := somewhere(t)
	testlock.Acquire(t, p, "x")
	for _, how := range [][]string{{"--try"}, {"--wait", "0s"}, {"--wait", "50ms"}} {
		args := append([]string{"run"}, how...)
		code, stdout, stderr := p.fence(append(args, script("echo ran")...)...).wait()
		require.Equal(t, exitHeld, code, how)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "held by another")
	}
}

func TestUnreachable(t *testing.T) {
	hangs := testserver.StartRedis(t)
	hangs.Pause()
	for on, how := range map[string]string{
		"redis://127.0.0.1:1": "", "postgres://127.0.0.1:1/x": "", "mysql://u@127.0.0.1:1/x": "", "zk://127.0.0.1:1": "",
		"etcd://127.0.0.1:1": "",
		"redis+redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3": "", "redis+sentinel://127.0.0.1:1/m": "",
		"redis+cluster://127.0.0.1:1": "", "redis://" + hangs.Addr(): "200ms",
	} {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			args := []string{"run", "--name", "x"}
			if how != "" {
				args = append(args, "--wait", how)
			}
			code, stdout, stderr := fence(t, []string{"FENCELOCK_ON=" + on}, append(args, script("echo ran")...)...).wait()
			require.Equal(t, exitUnreachable, code)
			require.Empty(t, stdout)
			require.NotEmpty(t, stderr)
			code, _, _ = fence(t, []string{"FENCELOCK_ON=" + on}, "status", "--name", "x", "--timeout", "300ms").wait()
			require.Equal(t, exitUnreachable, code)
		})
	}
}

func TestTheEventsInJSON(t *testing.T) {
	p := somewhere(t)
	c := p.fence(append([]string{"run", "--json", "--ttl", "300ms"}, script(`exec 2>/dev/null; trap 'exit 0' TERM; echo ready; `+idle)...)...)
	require.Equal(t, "ready", c.line())
	token := p.status().Token.String()
	p.steal()
	code, _, stderr := c.wait()
	require.Equal(t, exitLost, code)
	var events []map[string]any
	for line := range strings.Lines(stderr) {
		var e map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &e), line)
		events = append(events, e)
	}
	require.Len(t, events, 3, stderr)
	require.Equal(t, "acquired", events[0]["event"])
	require.Equal(t, token, events[0]["token"])
	require.Equal(t, "error", events[1]["event"])
	require.EqualValues(t, exitLost, events[1]["code"])
	require.Contains(t, events[1]["error"], "no longer held")
	require.Equal(t, "released", events[2]["event"])
	require.EqualValues(t, exitLost, events[2]["code"])
}

func TestStatus(t *testing.T) {
	p := somewhere(t)
	ask := func(args ...string) string {
		code, stdout, stderr := p.fence(append([]string{"status"}, args...)...).wait()
		require.Zero(t, code, stderr)
		return stdout
	}
	require.JSONEq(t, `{"name":"x","held":false,"waiters":0}`, ask("--json"))
	lock := testlock.Acquire(t, p, "x", fencelock.TTL(time.Hour))
	var s struct {
		Held  bool
		Token string
		ForMS int `json:"for_ms"`
		Since time.Time
	}
	require.NoError(t, json.Unmarshal([]byte(ask("--json")), &s))
	require.True(t, s.Held)
	require.Equal(t, lock.Token().String(), s.Token)
	require.InDelta(t, time.Hour.Milliseconds(), s.ForMS, 60_000)
	require.WithinDuration(t, time.Now(), s.Since, time.Minute)
	require.Regexp(t, `(?m)^held +yes, for 59m5\S+ unless renewed$`, ask())
	testlock.Release(t, lock)
	require.Regexp(t, `(?m)^held +no$`, ask())
	require.Contains(t, ask(), lock.Token().String()+", the last one")
}

// A lock that is another client's, by SET NX PX, has no token to end it by.
func TestReleaseOfWhatIsNotOurs(t *testing.T) {
	p := somewhere(t)
	p.server.Do("SET", p.prefix+"x", "somebody", "NX", "PX", "60000")
	code, _, stderr := p.fence("release", "--force").wait()
	require.Equal(t, exitUnreachable, code)
	require.Contains(t, stderr, "without a token")
	require.True(t, p.status().Held)
}
