package testserver

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// RedisEnv is the environment variable with the host:port of a running Redis that SharedRedis is to use.
const RedisEnv = "FENCELOCK_TEST_REDIS_ADDR"

const redisAdvice = "install redis-server"

// Redis is a Redis server. A dedicated one (StartRedis) may be paused, killed, restarted and have its clock stepped.
type Redis struct {
	*Process
	addr    string
	clock   *clock // nil: cannot be stepped
	busPort string // of a node of a cluster
}

// StartRedis starts a Redis of this test's own on a free port of the loopback interface, without persistence. args are
// given to redis-server and win over ours, such as "--appendonly", "yes" for a Redis that survives Restart.
func StartRedis(tb testing.TB, args ...string) *Redis {
	tb.Helper()
	return startOwn(tb, args, false)
}

func startClusterNode(tb testing.TB, args []string) *Redis {
	tb.Helper()
	return startOwn(tb, args, true)
}

func startOwn(tb testing.TB, args []string, cluster bool) *Redis {
	tb.Helper()
	path, dir := Binary(tb, redisAdvice, "redis-server"), tempDir(tb)
	r := &Redis{clock: newClock(tb, dir)}
	if err := r.start(path, dir, args, cluster); err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	r.endWith(tb)
	return r
}

// SharedRedis returns the plain Redis that all tests of this binary share: the one at RedisEnv, else one that is started
// by the first call and ended by Main. Use keys of your own (Prefix) and no FLUSHALL; it cannot be paused or killed.
func SharedRedis(tb testing.TB) *Redis {
	tb.Helper()
	if addr := os.Getenv(RedisEnv); addr != "" {
		r := &Redis{Process: foreign(tb, RedisEnv), addr: addr}
		if _, err := r.Try("PING"); err != nil {
			tb.Fatalf("testserver: %s=%s: %v", RedisEnv, addr, err)
		}
		return r
	}
	path := Binary(tb, redisAdvice+" or set "+RedisEnv, "redis-server")
	r := share(tb, func(dir string) (*Redis, error) {
		r := &Redis{}
		return r, r.start(path, dir, nil, false)
	})
	return &Redis{Process: r.lend(tb, "StartRedis"), addr: r.addr}
}

// Addr returns host:port.
func (r *Redis) Addr() string { return r.addr }

// Do sends one command over a connection of its own and returns the reply: string, int64, nil or []any. An error fails
// the test.
func (r *Redis) Do(args ...string) any {
	r.tb.Helper()
	v, err := r.Try(args...)
	if err != nil {
		r.tb.Fatalf("testserver: %q at %s: %v", args, r.addr, err)
	}
	return v
}

// Try is Do for tests that expect an error, and for goroutines that must not fail the test.
func (r *Redis) Try(args ...string) (any, error) {
	c, err := dialRESP(r.addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.do(args...)
}

// Info returns the fields of one section of INFO.
func (r *Redis) Info(section string) map[string]string {
	r.tb.Helper()
	return fields(r.Do("INFO", section))
}

func (r *Redis) start(path, dir string, args []string, cluster bool) (err error) {
	r.Process, err = startOnPort(func(port int) (Command, error) {
		r.addr = loopback(port)
		own := []string{
			"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir,
			"--save", "", "--appendonly", "no",
			"--repl-diskless-sync-delay", "0", // else a replica waits five seconds for its first copy
		}
		if cluster {
			bus, err := nextPort()
			if err != nil {
				return Command{}, err
			}
			r.busPort = strconv.Itoa(bus)
			own = append(own, "--cluster-enabled", "yes", "--cluster-port", r.busPort,
				"--cluster-announce-ip", "127.0.0.1", "--cluster-require-full-coverage", "no")
		}
		return Command{Path: path, Args: slices.Concat(own, args), Env: r.clock.env(), Dir: dir, Ready: r.ready}, nil
	})
	return err
}

// ready asks for the process id: a server that took the port before ours would answer, too.
func (r *Redis) ready(pid int) error {
	v, err := r.Try("INFO")
	if err != nil {
		return err
	}
	f := fields(v)
	switch {
	case f["process_id"] != strconv.Itoa(pid):
		return fmt.Errorf("process %s answers at %s, not %d", f["process_id"], r.addr, pid)
	case f["loading"] != "0":
		return fmt.Errorf("still loading")
	}
	return nil
}

func fields(info any) map[string]string {
	m := map[string]string{}
	text, _ := info.(string)
	for line := range strings.SplitSeq(text, "\r\n") {
		if k, v, ok := strings.Cut(line, ":"); ok {
			m[k] = v
		}
	}
	return m
}
