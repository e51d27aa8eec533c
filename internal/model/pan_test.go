package model

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock/internal/testserver"
)

// checker is fence.pml made into a program that searches all its states, pan.
type checker struct {
	defines []string
	dir     string
}

// build makes a checker of the model with these macros. The flags are for the
// C compiler.
func build(t *testing.T, defines string, flags ...string) checker {
	t.Helper()
	spin := testserver.Binary(t, "install the package spin", "spin")
	cc := testserver.Binary(t, "install the package gcc", "gcc", "cc")
	c := checker{dir: t.TempDir()}
	for name := range strings.FieldsSeq(defines) {
		c.defines = append(c.defines, "-D"+name)
	}
	source, err := os.ReadFile("fence.pml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "fence.pml"), source, 0o600))
	out, err := c.run(t.Context(), spin, append(c.defines, "-a", "fence.pml")...)
	require.NoError(t, err, out)
	require.Empty(t, out, "spin has something to say")
	// -w: spin's own code makes gcc warn.
	out, err = c.run(t.Context(), cc, append([]string{"-w", "-DSAFETY", "-o", "pan", "pan.c"}, flags...)...)
	require.NoError(t, err, out)
	return c
}

func (c checker) run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = c.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// search runs the checker. -E: a model that stops is no error.
func (c checker) search(t *testing.T, flags ...string) (search, error) {
	t.Helper()
	out, err := c.run(t.Context(), "./pan", append([]string{"-E", "-n"}, flags...)...)
	if err != nil {
		return search{}, fmt.Errorf("%w\n%s", err, out)
	}
	return parse(out)
}

// trail tells the story of the violation that search has found.
func (c checker) trail(t *testing.T) string {
	t.Helper()
	out, err := c.run(t.Context(), "spin", append(c.defines, "-T", "-t", "fence.pml")...)
	if err != nil {
		return err.Error()
	}
	story, _, _ := strings.Cut(out, "spin: ")
	return story
}

// search is what pan says of one that either is complete or has found something.
type search struct {
	states   int
	violated string // the assertion, "" if none
	seconds  string
}

var (
	// Whatever else pan may say before this, or instead, means that it has left
	// something out: it exits with 0 in any case.
	completed = regexp.MustCompile(`\A(?:Depth= .*\n)*\n*\(Spin Version .*\)\n(?:\t\+ .*\n)*\n` +
		`Full statespace search for:\n\tnever claim +\t- \(none specified\)\n\tassertion violations\t\+\n`)
	violation = regexp.MustCompile(`(?m)^pan:\d+: assertion violated (.+) \(at depth \d+\)$`)
	found     = regexp.MustCompile(`(?m)^State-vector \d+ byte, depth reached \d+, errors: (\d+)\n\s*(\d+) states, stored$`)
	elapsed   = regexp.MustCompile(`(?m)^pan: elapsed time (\S+) seconds$`)
)

// parse reads pan's report. A search that was not complete and has not found
// anything proves nothing and is an error.
func parse(out string) (search, error) {
	nums, time := found.FindStringSubmatch(out), elapsed.FindStringSubmatch(out)
	if nums == nil || time == nil {
		return search{}, errors.New("pan has not come to an end:\n" + out)
	}
	s := search{seconds: time[1]}
	s.states, _ = strconv.Atoi(nums[2])
	if v := violation.FindStringSubmatch(out); v != nil {
		s.violated = v[1]
		return s, nil
	}
	if nums[1] != "0" || !completed.MatchString(out) {
		return search{}, errors.New("pan's search was not complete:\n" + out)
	}
	return s, nil
}

// Searches that are cut short, and those that do not look, are no passes.
func TestIncompleteSearchIsAnError(t *testing.T) {
	fails := func(t *testing.T, c checker, flags ...string) {
		t.Helper()
		s, err := c.search(t, flags...)
		require.ErrorContains(t, err, "not complete", "%+v", s)
	}
	for name, flag := range map[string]string{
		"too little memory": "-DMEMLIM=140",
		"hashes of states":  "-DHC4",
		"bits for states":   "-DBITSTATE",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fails(t, build(t, "MAX=3", flag))
		})
	}
	c := build(t, "MAX=3")
	t.Run("too deep", func(t *testing.T) { fails(t, c, "-m20") })
	t.Run("assertions are off", func(t *testing.T) { fails(t, c, "-A") })

	out, err := c.run(t.Context(), "./pan", "-E", "-n")
	require.NoError(t, err)
	_, err = parse(out)
	require.NoError(t, err, "the whole of it is a pass")
	t.Run("killed", func(t *testing.T) {
		end := strings.Index(out, "pan: elapsed time")
		for n := range end {
			_, err := parse(out[:n])
			require.Error(t, err, "cut off at byte %d", n)
		}
	})
	t.Run("an error that is no assertion", func(t *testing.T) {
		_, err := parse(strings.Replace(out, "errors: 0", "errors: 1", 1))
		require.Error(t, err)
	})
}
