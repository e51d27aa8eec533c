package testserver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ZooKeeperEnv is the environment variable with the host:port of a running ZooKeeper that SharedZooKeeper is to use. It
// must answer the four-letter commands srvr and dump.
const ZooKeeperEnv = "FENCELOCK_TEST_ZOOKEEPER_ADDR"

const (
	zooAdvice = "install zookeeper and a Java runtime such as default-jre-headless"
	zooJar    = "/usr/share/java/zookeeper.jar" // names the jars that it needs itself
	zooLogger = "/usr/share/java/slf4j-simple.jar"
)

// ZooKeeper is a ZooKeeper server, alone or a member of an ensemble (ZooKeeperEnsemble). A dedicated one may be paused,
// killed and restarted; what it has acknowledged survives that.
type ZooKeeper struct {
	*Process
	addr string
}

// StartZooKeeper starts a ZooKeeper of this test's own on a free port of the loopback interface. Its ticks are 200 ms, so
// that session time-outs from 400 ms on are granted. args are lines of its configuration, such as "tickTime=2000", or
// flags of the JVM, such as "-Dznode.container.checkIntervalMs=100", and win over ours.
func StartZooKeeper(tb testing.TB, args ...string) *ZooKeeper {
	tb.Helper()
	z, err := newZooKeeper(javaProgram(tb, zooAdvice), tempDir(tb), args)
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	z.endWith(tb)
	return z
}

// SharedZooKeeper returns the ZooKeeper that all tests of this binary share: the one at ZooKeeperEnv, else one that is
// started by the first call and ended by Main. Use paths of your own (Prefix); it cannot be paused or killed.
func SharedZooKeeper(tb testing.TB) *ZooKeeper {
	tb.Helper()
	if addr := os.Getenv(ZooKeeperEnv); addr != "" {
		z := &ZooKeeper{foreign(tb, ZooKeeperEnv), addr}
		if _, err := z.Try("srvr"); err != nil {
			tb.Fatalf("testserver: %s=%s: %v", ZooKeeperEnv, addr, err)
		}
		return z
	}
	java := javaProgram(tb, zooAdvice+" or set "+ZooKeeperEnv)
	z := share(tb, func(dir string) (*ZooKeeper, error) { return newZooKeeper(java, dir, nil) })
	return &ZooKeeper{z.lend(tb, "StartZooKeeper"), z.addr}
}

// Addr returns host:port.
func (z *ZooKeeper) Addr() string { return z.addr }

// Ask sends a four-letter command and returns the answer.
func (z *ZooKeeper) Ask(word string) string {
	z.tb.Helper()
	answer, err := z.Try(word)
	if err != nil {
		z.tb.Fatalf("testserver: %s at %s: %v", word, z.addr, err)
	}
	return answer
}

// Try is Ask for tests that expect an error.
func (z *ZooKeeper) Try(word string) (string, error) {
	c, err := net.DialTimeout("tcp", z.addr, time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(c)
	if err == nil && len(answer) == 0 {
		err = errors.New("no answer")
	}
	return string(answer), err
}

// Mode returns standalone, leader or follower, or nothing if the server does not serve.
func (z *ZooKeeper) Mode() string {
	answer, _ := z.Try("srvr")
	for line := range strings.Lines(answer) {
		if mode, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(mode)
		}
	}
	return ""
}

// Sessions returns the ids of the live sessions, in hexadecimal, as the leader or a single server knows them.
func (z *ZooKeeper) Sessions() (ids []string) {
	answer := z.Ask("dump")
	answer, _, _ = strings.Cut(answer, "ephemeral nodes dump:")
	for line := range strings.Lines(answer) {
		if id := strings.TrimSpace(line); strings.HasPrefix(id, "0x") {
			ids = append(ids, id)
		}
	}
	return ids
}

// Ephemerals returns the paths of all ephemeral nodes.
func (z *ZooKeeper) Ephemerals() (paths []string) {
	_, answer, _ := strings.Cut(z.Ask("dump"), "ephemeral nodes dump:")
	for line := range strings.Lines(answer) {
		if path := strings.TrimSpace(line); strings.HasPrefix(path, "/") {
			paths = append(paths, path)
		}
	}
	return paths
}

// DataDir returns the folder of the snapshots and logs.
func (z *ZooKeeper) DataDir() string { return filepath.Join(z.Dir(), "data", "version-2") }

func newZooKeeper(java, dir string, args []string) (*ZooKeeper, error) {
	z := &ZooKeeper{}
	var err error
	z.Process, err = startOnPort(func(port int) (Command, error) {
		z.addr = loopback(port)
		return zooCommand(java, dir, port, args, func(int) error { return z.ready(dir, "standalone") })
	})
	return z, err
}

// zooCommand writes the configuration and says how to start the server with it.
func zooCommand(java, dir string, port int, args []string, ready func(pid int) error) (Command, error) {
	var config bytes.Buffer
	fmt.Fprintf(&config, "dataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\n", filepath.Join(dir, "data"), port)
	config.WriteString("tickTime=200\nmaxSessionTimeout=120000\ninitLimit=100\nsyncLimit=25\nmaxClientCnxns=0\n" +
		"forceSync=no\nadmin.enableServer=false\n4lw.commands.whitelist=*\n")
	flags := []string{
		"-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", // a quick start, little memory
		"-Dzookeeper.jmx.log4j.disable=true", "-Dzookeeper.preAllocSize=1024", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
	}
	for _, a := range args {
		if strings.HasPrefix(a, "-") {
			flags = append(flags, a)
		} else {
			fmt.Fprintln(&config, a) // the last one counts
		}
	}
	file := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(file, config.Bytes(), 0o600); err != nil {
		return Command{}, err
	}
	return Command{
		Path: java, Dir: dir, Ready: ready,
		Args: append(flags, "-cp", zooJar+":"+zooLogger, "org.apache.zookeeper.server.quorum.QuorumPeerMain", file),
	}, nil
}

// ready asks for the folder of the data: another server may answer at the port.
func (z *ZooKeeper) ready(dir string, modes ...string) error {
	conf, err := z.Try("conf")
	if err != nil {
		return err
	}
	if !strings.Contains(conf, "dataDir="+filepath.Join(dir, "data")+"/") {
		return fmt.Errorf("another server answers at %s", z.addr)
	}
	mode := z.Mode()
	for _, m := range modes {
		if mode == m {
			return nil
		}
	}
	return fmt.Errorf("it is %q, want %q", mode, modes)
}

func javaProgram(tb testing.TB, advice string) string {
	tb.Helper()
	for _, jar := range []string{zooJar, zooLogger} {
		if !exists(jar) {
			Missing(tb, "no %s found: %s", jar, advice)
		}
	}
	return Binary(tb, advice, "java")
}

func port(addr string) int {
	_, p := hostPort(addr)
	n, _ := strconv.Atoi(p)
	return n
}
