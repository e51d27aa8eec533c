package testserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
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
	Main(m)
}

func pidExists(pid int) bool {
	return exists(fmt.Sprintf("/proc/%d", pid)) && !zombie(pid)
}

func zombie(pid int) bool {
	var name, state string
	var id int
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, err = fmt.Sscan(string(b), &id, &name, &state)
	return err == nil && state == "Z"
}
