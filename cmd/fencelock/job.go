//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
	"unsafe"
)

// job is a running program and all that it has started, a process group.
type job struct {
	pid   int
	ended chan syscall.WaitStatus // the program has ended
}

// startJob starts a program that has our input and outputs.
func startJob(path string, argv, env []string) (*job, error) {
	attr := die()
	attr.Setpgid = true
	// Who types on the terminal talks to the program: it may read, and Ctrl-C
	// goes to it.
	typing := foreground()
	if typing {
		attr.Foreground, attr.Ctty = true, 0
	}
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}, Sys: attr})
	if err != nil {
		return nil, err
	}
	j := &job{pid, make(chan syscall.WaitStatus, 1)}
	go j.reap(typing)
	return j, nil
}

// reap collects every child there is, for as long as we live: those that the
// kernel gives to process 1 as well.
func (j *job) reap(typing bool) {
	options := 0
	if typing {
		options = syscall.WUNTRACED
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, options, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // no child is left, and nobody gives us one if we are not process 1
			return
		case status.Stopped():
			// Ctrl-Z. The shell would not know, and the lock would go on.
			if status.StopSignal() == syscall.SIGTSTP {
				j.signal(syscall.SIGCONT)
			}
		case pid == j.pid:
			j.ended <- status
		}
	}
}

// signal is for the whole group.
func (j *job) signal(s syscall.Signal) { _ = syscall.Kill(-j.pid, s) }

// end asks the group to end, also if it is stopped.
func (j *job) end() {
	j.signal(syscall.SIGTERM)
	j.signal(syscall.SIGCONT)
}

// clear waits until the group is gone when the program has, and kills what is left
// in the end.
func (j *job) clear(late <-chan struct{}) {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for syscall.Kill(-j.pid, 0) != syscall.ESRCH {
		select {
		case <-look.C:
		case <-late:
			j.signal(syscall.SIGKILL)
			return // who is a zombie by now may stay one
		}
	}
}

func exitCode(s syscall.WaitStatus) int {
	if s.Signaled() {
		return exitSignal + int(s.Signal())
	}
	return s.ExitStatus()
}

// catch returns a channel of all signals that we can pass on.
func catch() <-chan os.Signal {
	signals := make(chan os.Signal, 64)
	for n := range 65 {
		s := syscall.Signal(n)
		switch s {
		case 0, 32, 33, syscall.SIGKILL, syscall.SIGSTOP: // nobody can
		case syscall.SIGCHLD, syscall.SIGURG, syscall.SIGPIPE, syscall.SIGTTIN, syscall.SIGTTOU: // they are about us
		case syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGSYS:
		default:
			if !signal.Ignored(s) { // as HUP under nohup
				signal.Notify(signals, s)
			}
		}
	}
	return signals
}

// foreground reports whether we read from a terminal that is ours at the moment.
func foreground() bool {
	var group int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, 0, syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&group)))
	return errno == 0 && int(group) == syscall.Getpgrp()
}
