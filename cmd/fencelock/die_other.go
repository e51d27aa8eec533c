//go:build unix && !linux

package main

import "syscall"

// die can do nothing here: a program whose fencelock was killed runs on, and only
// the fence stops it.
func die() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
