package testserver

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// RequireEnv is the environment variable that turns skips for want of a server into failures when it is 1.
const RequireEnv = "FENCELOCK_TEST_REQUIRE"

var (
	loud io.Writer = os.Stderr
	said sync.Map  // reasons already printed
)

// Missing skips the test because something on this machine is missing, loudly, or fails it under RequireEnv.
func Missing(tb testing.TB, format string, args ...any) {
	tb.Helper()
	why := fmt.Sprintf(format, args...)
	if os.Getenv(RequireEnv) == "1" {
		tb.Fatalf("testserver: %s (%s=1)", why, RequireEnv)
	}
	if _, again := said.LoadOrStore(why, true); !again {
		fmt.Fprintf(loud, "SKIPPED: %s\n", why)
	}
	tb.Skipf("testserver: %s", why)
}

// Binary returns the path of the first of these programs that is installed. If none is, the test is skipped as by
// Missing, with advice on what would help.
func Binary(tb testing.TB, advice string, names ...string) string {
	tb.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	Missing(tb, "no %s found: %s", strings.Join(names, " or "), advice)
	return ""
}

// tempDir is a directory that is removed after everything started later in the test has ended.
func tempDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "fencelock-")
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
