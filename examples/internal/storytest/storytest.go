// Package storytest lets a test of an example run the program itself, built as a
// user's go run builds it.
package storytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var programs struct {
	sync.Mutex
	dir string
}

// Main is the body of TestMain: it runs the tests, removes what Build has made,
// and fails if a goroutine is left.
func Main(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(programs.dir)
		os.Exit(code)
	}))
}

// Build builds the command in the test's directory, once for each tag, and
// returns the path of the program.
func Build(t *testing.T, tag string) string {
	t.Helper()
	programs.Lock()
	defer programs.Unlock()
	if programs.dir == "" {
		dir, err := os.MkdirTemp("", "fencelock-examples-")
		require.NoError(t, err)
		programs.dir = dir
	}
	path := filepath.Join(programs.dir, "program"+tag)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	out, err := exec.Command("go", "build", "-tags", tag, "-o", path, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// Tell runs a program with -json and returns its rows and its exit status.
func Tell[Row any](t *testing.T, program string, args ...string) (rows []Row, status int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, append(args, "-json")...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status = exit.ExitCode()
	} else {
		require.NoError(t, err)
	}
	t.Logf("\n%s%s", &log, &out)
	for lines := json.NewDecoder(&out); lines.More(); {
		var r Row
		require.NoError(t, lines.Decode(&r))
		rows = append(rows, r)
	}
	return rows, status
}
