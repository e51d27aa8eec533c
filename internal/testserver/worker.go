package testserver

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

const workerEnv = "FENCELOCK_TEST_WORKER"

// WorkerFunc is what a worker process does. It gets the lines of Worker.Send on in, ends when in ends, and answers in
// lines on out. An error is printed to the log and makes Worker.Wait fail.
type WorkerFunc func(args []string, in io.Reader, out io.Writer) error

var workers = map[string]WorkerFunc{}

// RegisterWorker makes a function known that StartWorker runs in a process of its own. Call it in an init function or in
// TestMain before Main.
func RegisterWorker(name string, f WorkerFunc) { workers[name] = f }

// Worker is a running copy of the test binary, to have locks held by several processes. It ends with the test.
type Worker struct {
	*Process
	in    *os.File
	out   *os.File
	lines *bufio.Reader
}

// StartWorker starts a worker process. The package's TestMain must call Main.
func StartWorker(tb testing.TB, name string, args ...string) *Worker {
	tb.Helper()
	if workers[name] == nil {
		tb.Fatalf("testserver: no worker %q is registered", name)
	}
	binary, err := os.Executable()
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	dir := tempDir(tb)
	theirIn, in, err := os.Pipe()
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	w := &Worker{in: in, out: out, lines: bufio.NewReader(out)}
	tb.Cleanup(func() { in.Close(); out.Close() })
	w.Process = Start(tb, Command{
		Path: binary, Args: args, Env: []string{workerEnv + "=" + name}, Dir: dir, Stdin: theirIn, Stdout: theirOut,
	})
	theirIn.Close()
	theirOut.Close()
	tb.Cleanup(func() {
		if strings.Contains(w.Log(), "WARNING: DATA RACE") {
			tb.Errorf("testserver: data race in worker %s:\n%s", name, w.Log())
		}
	})
	return w
}

// Send gives the worker a line.
func (w *Worker) Send(format string, args ...any) {
	w.tb.Helper()
	_ = w.in.SetWriteDeadline(time.Now().Add(startTime))
	if _, err := fmt.Fprintf(w.in, format+"\n", args...); err != nil {
		w.tb.Fatalf("testserver: worker: %v\n%s", err, w.Log())
	}
}

// Line returns the next line of the worker's output without its end, and fails the test if none comes within a minute.
func (w *Worker) Line() string {
	w.tb.Helper()
	line, err := w.TryLine(startTime)
	if err != nil {
		w.tb.Fatalf("testserver: no line from the worker: %v\n%s", err, w.Log())
	}
	return line
}

// TryLine is Line with an error: os.ErrDeadlineExceeded after the given time, io.EOF when the worker has ended.
func (w *Worker) TryLine(within time.Duration) (string, error) {
	_ = w.out.SetReadDeadline(time.Now().Add(within))
	line, err := w.lines.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

// Wait ends the worker's input and waits until it has ended by itself. It fails the test if the worker's function
// returned an error, panicked or had a data race, or does not end within a minute.
func (w *Worker) Wait() {
	w.tb.Helper()
	w.in.Close()
	if !w.exited(startTime) {
		w.tb.Fatalf("testserver: the worker does not end\n%s", w.Log())
	}
	if err := w.collect(); err != nil {
		w.tb.Fatalf("testserver: worker: %v\n%s", err, w.Log())
	}
}

// runWorker is the main function of a worker process.
func runWorker(name string) int {
	f := workers[name]
	if f == nil {
		fmt.Fprintf(os.Stderr, "no worker %q is registered\n", name)
		return 2
	}
	if err := f(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
