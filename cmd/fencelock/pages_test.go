//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock/internal/testserver"
)

// The commands that the pages and the help show work as they stand there, from a
// folder with the jobs that they name.
func TestTheCommandsOfThePages(t *testing.T) {
	server := testserver.SharedRedis(t)
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(dir, "fencelock")))
	for _, job := range []string{"job.sh", "import"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, job), []byte("#!/bin/sh\ntest -n \"$FENCELOCK_TOKEN\"\n"), 0o755))
	}
	for _, command := range shown(t) {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", command)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), mainEnv+"=1", "GORACE=atexit_sleep_ms=0", "FENCELOCK_ON=redis://"+server.Addr(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s\n%s", command, out)
	}
}

// shown returns all lines that begin with fencelock and a command.
func shown(t *testing.T) (commands []string) {
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	texts := afterRun
	for _, page := range append(pages, "../../README.md", "main.go") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		texts += "\n" + string(text)
	}
	for _, line := range regexp.MustCompile(`(?m)^(?://)?\s*(fencelock (?:run|status|release) .*)$`).FindAllStringSubmatch(texts, -1) {
		if !strings.Contains(line[1], "...") { // a synopsis
			commands = append(commands, line[1])
		}
	}
	require.Greater(t, len(commands), 6)
	return commands
}
