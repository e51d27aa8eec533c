package main

import "syscall"

// die has the kernel kill the program when we are gone, however we went: nobody
// would renew its lock.
func die() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
