// Package child runs a program again as several processes of its own, so that an
// example has real processes to pause and to kill.
package child

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// stopWait bounds how long a process may take to end by itself.
const stopWait = 5 * time.Second

// Main runs f, and ends the process, if Start has started it under this name; else
// it does nothing. f gets Start's config as JSON. It is called first thing in
// main and in TestMain.
func Main(name string, f func(config []byte) error) {
	config, ok := os.LookupEnv(name)
	if !ok {
		return
	}
	signal.Ignore(os.Interrupt) // Ctrl-C is the parent's, which ends us
	if err := f([]byte(config)); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Orphaned waits until the parent has called Stop, or is gone.
func Orphaned() { _, _ = io.Copy(io.Discard, os.Stdin) }

// Process is a running copy of this program, seen from the parent.
type Process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
	ended chan struct{} // closed when its output has ended
}

// Start runs this program again; its Main with this name gets the config. name is
// the name of an environment variable.
func Start(name string, config any) (*Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(program), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), name+"="+string(text))
	p.cmd.Stderr, p.cmd.SysProcAttr = os.Stderr, dieWithParent()
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.lines = bufio.NewScanner(stdout)
	return p, p.cmd.Start()
}

// Line waits for the next line that the process prints; false means that it has
// ended. It is for what comes before Follow.
func (p *Process) Line() (line string, ok bool) {
	ok = p.lines.Scan()
	return p.lines.Text(), ok
}

// Follow calls each for every line that the process prints, until it has ended.
// It is called once.
func (p *Process) Follow(each func(line string)) {
	defer close(p.ended)
	for p.lines.Scan() {
		each(p.lines.Text())
	}
}

// Pause stops the process, with its renewals and all.
func (p *Process) Pause() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets it go on.
func (p *Process) Resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// Kill ends the process at once, as if the machine's power had failed.
func (p *Process) Kill() error { return p.cmd.Process.Kill() }

// Stop asks the process to end, waits until Follow has seen that it did, and kills
// it if that takes more than a few seconds. It returns how the process ended.
func (p *Process) Stop() error {
	_ = p.stdin.Close()
	kill := time.AfterFunc(stopWait, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	return p.Wait()
}

// Wait waits until Follow has seen that the process ended, and returns how.
func (p *Process) Wait() error {
	<-p.ended
	return errors.Join(p.lines.Err(), p.cmd.Wait())
}
