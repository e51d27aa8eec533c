package testserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startTime = 60 * time.Second // for a server to become ready on a busy machine
	logTail   = 8 << 10          // bytes of a log that are shown
)

// Command says how a process is started and when it is ready.
type Command struct {
	Path          string
	Args          []string
	Env           []string // added to the environment of the test
	Dir           string   // working directory, and the place of the log
	Stdin, Stdout *os.File // nil: no input, output to the log

	As    *account // nil: as the test itself
	Tree  bool     // its children are paused and killed with it
	Ended func()   // nil, or called whenever it has been ended

	// Ready is asked again and again until it returns nil. It must make sure that the answer comes from this very
	// process (its id is given), not from another one that took the port in between. Nil: ready at once.
	Ready func(pid int) error
}

// Process is a running process that ends with its test, and also if the test process itself dies. It costs no
// goroutine, so that leak checks need not know of it. Its methods are safe for concurrent use; those that change its
// state fail the test if they cannot.
type Process struct {
	tb      testing.TB
	foreign string // not empty: why this process may not be touched

	command Command
	log     string

	mu    sync.Mutex
	cmd   *exec.Cmd
	alive *os.File // reading end of a pipe that the process, and its children, hold open as long as they live
	guard *guard   // of a Tree that is paused
}

// Start starts a process, waits until it is ready and ends it when the test ends. The log is printed if the test fails.
func Start(tb testing.TB, c Command) *Process {
	tb.Helper()
	p, err := start(c)
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	p.endWith(tb)
	return p
}

// PID returns the process id.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Dir returns the working directory.
func (p *Process) Dir() string { return p.command.Dir }

// Pause stops the process as a long garbage collection, a swapped-out machine or a suspended container would: its
// connections stay open and nothing is answered (SIGSTOP).
func (p *Process) Pause() { p.tb.Helper(); p.send(syscall.SIGSTOP) }

// Resume lets a paused process go on (SIGCONT).
func (p *Process) Resume() { p.tb.Helper(); p.send(syscall.SIGCONT) }

// Kill ends the process at once and waits until it is gone (SIGKILL). Killing a dead process does nothing.
func (p *Process) Kill() {
	p.tb.Helper()
	p.mine()
	p.end()
}

// Restart ends the process if it still runs, starts it again with the same command and waits until it is ready.
func (p *Process) Restart() {
	p.tb.Helper()
	p.mine()
	p.end()
	if err := p.run(); err != nil {
		p.tb.Fatalf("testserver: restart: %v", err)
	}
}

// Alive reports whether the process still runs, paused or not.
func (p *Process) Alive() bool { return !p.exited(time.Millisecond) }

// Log returns the end of what the process wrote.
func (p *Process) Log() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-logTail):])
}

func start(c Command) (*Process, error) {
	p := &Process{command: c, log: filepath.Join(c.Dir, filepath.Base(c.Path)+".log")}
	return p, p.run()
}

// endWith binds the life of the process to a test.
func (p *Process) endWith(tb testing.TB) {
	p.tb = tb
	tb.Cleanup(func() {
		p.end()
		if tb.Failed() {
			tb.Logf("testserver: end of the log of %s:\n%s", filepath.Base(p.command.Path), p.Log())
		}
	})
}

func (p *Process) run() error {
	if err := p.launch(); err != nil {
		return err
	}
	return p.awaitReady()
}

func (p *Process) awaitReady() error {
	if p.command.Ready == nil {
		return nil
	}
	pid, deadline := p.PID(), time.Now().Add(startTime)
	for {
		err := p.command.Ready(pid)
		if err == nil {
			return nil
		}
		if p.exited(2 * time.Millisecond) {
			err = errors.New("it ended")
		} else if time.Now().Before(deadline) {
			continue
		}
		p.end()
		return fmt.Errorf("%s is not ready: %w\n%s", p.command.Path, err, p.Log())
	}
}

func (p *Process) launch() error {
	c := p.command
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	alive, held, err := os.Pipe()
	if err != nil {
		return err
	}
	defer held.Close()

	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir, cmd.Env = c.Dir, append(os.Environ(), c.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	if c.Stdin != nil {
		cmd.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	cmd.ExtraFiles = []*os.File{held}
	cmd.SysProcAttr = c.As.attributes()
	if err := cmd.Start(); err != nil {
		alive.Close()
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.alive = cmd, alive
	return nil
}

// exited waits up to d for the end of the process and reports whether it has come.
func (p *Process) exited(d time.Duration) bool {
	p.mu.Lock()
	alive := p.alive
	p.mu.Unlock()
	if alive == nil || alive.SetReadDeadline(time.Now().Add(d)) != nil {
		return true
	}
	_, err := alive.Read(make([]byte, 1))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// end kills the process if it still runs.
func (p *Process) end() {
	p.mu.Lock()
	running := p.alive != nil
	if running {
		p.kill()
	}
	p.mu.Unlock()
	if running {
		_ = p.collect()
	}
}

// collect waits for the end of the process and returns its exit status, the first time.
func (p *Process) collect() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alive == nil {
		return nil
	}
	err := p.cmd.Wait()
	p.childrenGone()
	p.alive.Close()
	p.alive = nil
	if p.command.Ended != nil {
		p.command.Ended()
	}
	return err
}

func (p *Process) send(s syscall.Signal) {
	p.tb.Helper()
	p.mine()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.signal(s); err != nil {
		p.tb.Fatalf("testserver: %v to %s: %v", s, p.command.Path, err)
	}
}

func (p *Process) mine() {
	p.tb.Helper()
	if p.foreign != "" {
		p.tb.Fatalf("testserver: this server may not be paused, killed or stepped: %s", p.foreign)
	}
}
