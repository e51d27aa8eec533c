package testserver

import "syscall"

// dieWithParent has the kernel kill the child when its parent dies, even by SIGKILL. Linux counts the *thread* that
// forked as the parent; Go ends a thread only when a goroutine exits while locked to it, so no test may do that. (It is set after the child has become another user, which would clear it.)
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
