package child

import "syscall"

// dieWithParent has the kernel kill a child when this process is gone, however it
// went: one that is stopped does not see the end of its input.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
