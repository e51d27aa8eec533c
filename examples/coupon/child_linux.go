package main

import "syscall"

// dieWithParent has the kernel end a child when this process is gone, however
// it went.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
