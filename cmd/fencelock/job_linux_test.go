package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock/internal/testlock"
)

func init() {
	adopt = func() {
		const subreaper = 36
		if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, subreaper, 1, 0); errno != 0 {
			panic(errno)
		}
	}
}

// A job that does not listen is killed, and so is what it has started, even if it
// ends itself.
func TestALossEndsTheWholeGroup(t *testing.T) {
	for name, text := range map[string]string{
		"deaf":      `trap '' TERM; echo $$; ` + idle,
		"deaf heir": `echo $$; (trap '' TERM; ` + idle + `) & wait`,
	} {
		t.Run(name, func(t *testing.T) {
			p := somewhere(t)
			c := p.fence(append([]string{"run", "--ttl", "300ms", "--grace", "200ms"}, script(text)...)...)
			var group int
			require.NoError(t, json.Unmarshal([]byte(c.line()), &group))
			p.steal()
			code, _, _ := c.wait()
			require.Equal(t, exitLost, code)
			testlock.Eventually(t, func() bool { return !alive(group) }, "nobody of the group is left")
		})
	}
}

// alive reports whether anybody of a process group is there who is not a zombie,
// which only its parent can help.
func alive(group int) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		var state rune
		var parent, g int
		// The command's name may have blanks and brackets in it.
		_, err := fmt.Sscanf(string(text[bytes.LastIndexByte(text, ')')+1:]), " %c %d %d", &state, &parent, &g)
		if err == nil && g == group && state != 'Z' {
			return true
		}
	}
	return false
}

// A fencelock in another one's job: the program sees one lock, its own. (A shell would
// hide the other.)
func TestAJobSeesOneLock(t *testing.T) {
	t.Setenv("FENCELOCK_NAME", "the outer one's")
	p := somewhere(t)
	code, stdout, stderr := p.fence("run", "--", "cat", "/proc/self/environ").wait()
	require.Zero(t, code, stderr)
	var names []string
	for v := range strings.SplitSeq(stdout, "\x00") {
		if name, ok := strings.CutPrefix(v, "FENCELOCK_NAME="); ok {
			names = append(names, name)
		}
	}
	require.Equal(t, []string{"x"}, names)
}

// Whoever kills fencelock must not leave a job without a lock.
func TestAJobDoesNotOutliveUs(t *testing.T) {
	p := somewhere(t)
	c := p.fence(append([]string{"run"}, script(`echo $$; exec sleep 60`)...)...)
	var group int
	require.NoError(t, json.Unmarshal([]byte(c.line()), &group))
	require.True(t, alive(group))
	c.signal(syscall.SIGKILL)
	testlock.Eventually(t, func() bool { return !alive(group) }, "the job is gone")
}

// In a container orphans come to process 1, which must collect them.
func TestOrphansAreCollected(t *testing.T) {
	p := somewhere(t)
	c := fence(t, []string{"FENCELOCK_ON=redis://" + p.server.Addr(), mainEnv + "=init"}, append([]string{"run", "--name", "x", "--prefix", p.prefix},
		script(`sh -c 'sleep 0.05 & echo $!'; trap 'exit 7' USR1; `+idle)...)...)
	orphan := c.line()
	testlock.Eventually(t, func() bool {
		_, err := os.Stat("/proc/" + orphan)
		return os.IsNotExist(err)
	}, fmt.Sprintf("the orphan %s is gone, not a zombie", orphan))
	c.signal(syscall.SIGUSR1)
	code, _, _ := c.wait()
	require.Equal(t, 7, code)
}
