package testserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) {
	RegisterWorker("echo", func(args []string, in io.Reader, out io.Writer) error {
		fmt.Fprintln(out, "args", args)
		for s := bufio.NewScanner(in); s.Scan(); {
			if s.Text() == "fail" {
				return errors.New("told to fail")
			}
			fmt.Fprintln(out, "echo", s.Text())
		}
		return nil
	})
	// Starts a server as a test would and tells its process id, to see that it dies with the worker.
	RegisterWorker("parent", func(args []string, in io.Reader, out io.Writer) error {
		p, err := start(Command{Path: "sleep", Args: []string{"600"}, Dir: args[0]})
		if err != nil {
			return err
		}
		defer p.end()
		fmt.Fprintln(out, p.PID())
		_, err = io.Copy(io.Discard, in)
		return err
	})
	// The same with a PostgreSQL, whose processes it tells, paused or not.
	RegisterWorker("postgres", func(args []string, in io.Reader, out io.Writer) error {
		s, err := newPostgres(args[0], args[1], nil, nil)
		if err != nil {
			return err
		}
		defer s.end()
		pids := append(children(s.PID()), s.PID())
		if args[2] == "paused" {
			s.mu.Lock()
			err = s.signal(syscall.SIGSTOP)
			s.mu.Unlock()
		}
		fmt.Fprintln(out, strings.Trim(fmt.Sprint(pids), "[]"))
		_, _ = io.Copy(io.Discard, in)
		return err
	})
	Main(m)
}

func pidExists(pid int) bool {
	state, _ := stat(fmt.Sprintf("/proc/%d/stat", pid))
	return state != 0 && state != 'Z'
}
