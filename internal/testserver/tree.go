package testserver

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// signal sends a signal to the process and, of a Tree, to its children. After SIGSTOP it waits until all stand still.
// It is called with the lock held.
func (p *Process) signal(s syscall.Signal) error {
	// The process itself comes first: a stopped one starts no more children while we count them.
	if err := p.cmd.Process.Signal(s); err != nil {
		return err
	}
	if s == syscall.SIGSTOP && !stopped(p.cmd.Process.Pid, "T") {
		return errors.New("it does not stop")
	}
	if !p.command.Tree {
		return nil
	}
	if s == syscall.SIGCONT {
		p.guard.end()
		p.guard = nil
	}
	pids := children(p.cmd.Process.Pid)
	for _, pid := range pids {
		_ = syscall.Kill(pid, s) // it may have ended meanwhile
	}
	if s != syscall.SIGSTOP {
		return nil
	}
	for _, pid := range pids {
		if !stopped(pid, "TZ") {
			return errors.New("a child of it does not stop")
		}
	}
	if p.guard != nil {
		return nil
	}
	var err error
	p.guard, err = startGuard(pids)
	return err
}

// kill kills the process and, of a Tree, its children, which would otherwise outlive it as long as they are paused or
// busy. It is called with the lock held.
func (p *Process) kill() {
	if p.command.Tree && p.cmd.Process.Signal(syscall.SIGSTOP) == nil && stopped(p.cmd.Process.Pid, "TZ") {
		for _, pid := range children(p.cmd.Process.Pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	_ = p.cmd.Process.Kill()
	p.guard.end()
	p.guard = nil
}

// childrenGone waits until the children are gone, too. It is called with the lock held, after the process's own end.
func (p *Process) childrenGone() {
	if p.command.Tree && p.alive.SetReadDeadline(time.Now().Add(startTime)) == nil {
		_, _ = p.alive.Read(make([]byte, 1))
	}
}

// children returns the ids of the processes that pid has started. Their own children do not count.
func children(pid int) []int {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	var found []int
	for _, file := range all {
		if _, parent := stat(file); parent == pid {
			if child, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
				found = append(found, child)
			}
		}
	}
	return found
}

// guard is a process that kills paused ones when ours is gone: they cannot see for themselves that their parent died.
type guard struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

func startGuard(pids []int) (*guard, error) {
	args := []string{"-c", `read -r _ || kill -9 "$@"`, "sh"}
	for _, pid := range pids {
		args = append(args, strconv.Itoa(pid))
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	g := &guard{cmd: exec.Command("/bin/sh", args...), in: ours}
	g.cmd.Stdin = theirs
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the keyboard is not for it
	if err := g.cmd.Start(); err != nil {
		ours.Close()
		return nil, err
	}
	return g, nil
}

// end has the guard go without killing anybody. A nil guard has nothing to end.
func (g *guard) end() {
	if g == nil {
		return
	}
	_, _ = io.WriteString(g.in, "\n")
	g.in.Close()
	_ = g.cmd.Wait()
}
