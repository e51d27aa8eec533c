package testserver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// stopped waits until all threads of the process stand still: the signal only asks for it.
func stopped(pid int) bool {
	return poll(10*time.Second, func() bool {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(tasks) == 0 {
			return err == nil && !exists("/proc/self/stat") // no /proc on this system: nothing to wait for
		}
		for _, task := range tasks {
			b, err := os.ReadFile(task)
			if err != nil {
				continue // the thread has ended
			}
			// The state follows the command's name, which may itself contain blanks and brackets.
			if i := bytes.LastIndexByte(b, ')'); i < 0 || i+2 >= len(b) || b[i+2] != 'T' {
				return false
			}
		}
		return true
	})
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
