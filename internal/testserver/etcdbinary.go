package testserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// EtcdEnv is the environment variable with the path of the etcd binary that the tests are to use.
const EtcdEnv = "FENCELOCK_TEST_ETCD"

// etcdBinary returns the path of an etcd server: the one at EtcdEnv, else one that is built from the module proxy, once
// a machine.
func etcdBinary(tb testing.TB) string {
	tb.Helper()
	if path := os.Getenv(EtcdEnv); path != "" {
		return path
	}
	path, err := builtEtcd()
	if err != nil {
		Missing(tb, "no etcd: %v; set %s to the path of an etcd binary", err, EtcdEnv)
	}
	return path
}

var builtEtcd = sync.OnceValues(func() (string, error) {
	_, here, _, _ := runtime.Caller(0)
	dir := filepath.Join(filepath.Dir(here), "etcd")
	key := []string{runtime.GOARCH, runtime.Version()}
	for _, name := range []string{"main.go", "go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		key = append(key, string(text))
	}
	return cached("etcd", strings.Join(key, "\x00"), func(path string) error {
		cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, ".")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-buildvcs=false", "GOWORK=off")
		if msg, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go build in %s: %w: %s", dir, err, msg)
		}
		return nil
	})
})
