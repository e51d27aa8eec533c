//go:build !linux

package testserver

import "syscall"

// dieWithParent: only Linux can tie a child to its parent; elsewhere a killed test may leave its servers behind.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
