//go:build unix

package locktest

import (
	"os"
	"syscall"
)

func init() {
	pause = func(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
	wake = func(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
}
