//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sqldriver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock/internal/testserver"
)

// servers starts servers of each kind and returns their URL.
var servers = map[string]func(t *testing.T) string{
	"redis": func(t *testing.T) string { return "redis://" + testserver.SharedRedis(t).Addr() },
	"redis+sentinel": func(t *testing.T) string {
		return "redis+sentinel://" + sentinel(t, testserver.StartRedis(t)) + "/main"
	},
	"redis+redlock": func(t *testing.T) string {
		var nodes []string
		for range 3 {
			nodes = append(nodes, testserver.StartRedis(t).Addr())
		}
		return "redis+redlock://" + strings.Join(nodes, ",")
	},
	"redis+cluster": func(t *testing.T) string {
		return "redis+cluster://" + strings.Join(testserver.RedisCluster(t).Addrs(), ",")
	},
	"postgres":          func(t *testing.T) string { return postgres(t, "postgres") },
	"postgres+advisory": func(t *testing.T) string { return postgres(t, "postgres+advisory") },
	"postgresql+row":    func(t *testing.T) string { return postgres(t, "postgresql+row") },
	"mysql":             func(t *testing.T) string { return mariaDB(t, "mysql") },
	"mysql+advisory":    func(t *testing.T) string { return mariaDB(t, "mysql+advisory") },
	"mysql+row":         func(t *testing.T) string { return mariaDB(t, "mysql+row") },
	"etcd":              func(t *testing.T) string { return "etcd://" + testserver.SharedEtcd(t).Addr() },
	"zk":                func(t *testing.T) string { return "zk://" + testserver.SharedZooKeeper(t).Addr() },
}

func postgres(t *testing.T, scheme string) string {
	_, rest, _ := strings.Cut(testserver.SharedPostgres(t).NewDatabase(t).URL(), "://")
	return scheme + "://" + rest
}

func mariaDB(t *testing.T, scheme string) string {
	c, err := sqldriver.ParseDSN(testserver.SharedMariaDB(t).NewDatabase(t).DSN())
	require.NoError(t, err)
	return fmt.Sprintf("%s://%s:%s@%s/%s", scheme, c.User, c.Passwd, c.Addr, c.DBName)
}

// sentinel starts a sentinel that watches a Redis as "main".
func sentinel(t *testing.T, master *testserver.Redis) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr = l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	require.NoError(t, l.Close())
	dir := t.TempDir()
	config := filepath.Join(dir, "sentinel.conf")
	host, masterPort, _ := net.SplitHostPort(master.Addr())
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, "bind 127.0.0.1\nport %s\nsentinel monitor main %s %s 1\n", port, host, masterPort), 0o600))
	testserver.Start(t, testserver.Command{
		Path: testserver.Binary(t, "install redis-server", "redis-server"), Args: []string{config, "--sentinel"}, Dir: dir,
		Ready: func(int) error {
			c, err := net.DialTimeout("tcp", addr, time.Second)
			if err == nil {
				err = c.Close()
			}
			return err
		},
	})
	return addr
}

func TestEveryKindOfServer(t *testing.T) {
	for kind, start := range servers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			env, name := []string{"FENCELOCK_ON=" + start(t)}, testserver.Prefix(t)+"x"
			do := func(want int, args ...string) (stdout string) {
				code, stdout, stderr := fence(t, env, args...).wait()
				require.Equal(t, want, code, stderr)
				return stdout
			}
			switch {
			case kind == "postgres", kind == "mysql":
				do(exitUnreachable, append([]string{"run", "--name", name}, script("echo ran")...)...) // no tables
				fallthrough
			case strings.HasPrefix(kind, "postgres"), strings.HasPrefix(kind, "mysql"):
				do(0, "migrate")
			case kind == "redis":
				do(exitUsage, "migrate")
			}
			c := fence(t, env, append([]string{"run", "--name", name, "--ttl", "4s"},
				script(`echo $FENCELOCK_TOKEN; exec 2>/dev/null; trap 'exit 5' TERM; `+idle)...)...)
			var token int64
			require.NoError(t, json.Unmarshal([]byte(c.line()), &token))
			var s struct {
				Held  bool
				Token int64 `json:",string"`
			}
			require.NoError(t, json.Unmarshal([]byte(do(0, "status", "--json", "--name", name)), &s))
			require.True(t, s.Held)
			require.Positive(t, s.Token)
			require.LessOrEqual(t, s.Token, token)
			require.Empty(t, do(exitHeld, append([]string{"run", "--try", "--name", name}, script("echo ran")...)...))
			if kind == "redis" { // it is the same for all
				do(exitUsage, "release", "--name", name)
				require.Contains(t, do(0, "release", "--json", "--force", "--name", name, "--token", fmt.Sprint(s.Token-1)), `"held":true`)
			}
			require.Contains(t, do(0, "release", "--json", "--force", "--name", name), `"held":false`)
			code, _, stderr := c.wait()
			require.Equal(t, exitLost, code, stderr)
			require.Contains(t, stderr, "no longer held")
			require.Contains(t, do(0, "release", "--force", "--name", name), "no") // nobody has it
		})
	}
}
