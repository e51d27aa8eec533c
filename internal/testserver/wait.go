package testserver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// stopped waits until all threads of the process stand still: the signal only asks for it. states are those that count
// as standing still: T, stopped, and perhaps Z, dead.
func stopped(pid int, states string) bool {
	return poll(10*time.Second, func() bool {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(tasks) == 0 {
			return err == nil && !(exists("/proc/self/stat") && exists(fmt.Sprintf("/proc/%d", pid)))
		}
		for _, task := range tasks {
			if state, _ := stat(task); state != 0 && !strings.ContainsRune(states, state) {
				return false
			}
		}
		return true
	})
}

// stat reads a stat file of /proc: the state of a process or thread, 0 if it is gone, and its parent's id.
func stat(file string) (state rune, parent int) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, 0
	}
	// The state follows the command's name, which may itself contain blanks and brackets.
	_, err = fmt.Sscanf(string(b[bytes.LastIndexByte(b, ')')+1:]), " %c %d", &state, &parent)
	if err != nil {
		return 0, 0
	}
	return state, parent
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// poll asks again and again until the answer is true or the time is over.
func poll(within time.Duration, done func() bool) bool {
	for deadline := time.Now().Add(within); ; time.Sleep(2 * time.Millisecond) {
		if done() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}
