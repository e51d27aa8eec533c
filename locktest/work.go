package locktest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock"
)

// orderVar tells a test binary that it is a worker, and what to do.
const orderVar = "FENCELOCK_LOCKTEST_WORKER"

// order is what a worker does: hold Name until it is killed or, with
// Goroutines, acquire and release it For some time.
type order struct {
	Name       string
	TTL        time.Duration
	Goroutines int
	Passes     int
	For        time.Duration
}

// Self returns a command that runs this test binary again, with env added to
// the environment, for [Backend].Worker: say in it how to reach the server.
func Self(env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	return cmd
}

// Work does nothing in a test binary that was started as usual. In one that was
// started by [Self] it does what the suite asks for, with a Locker from open,
// and does not return. Call it first thing in TestMain.
func Work(open func(opts ...fencelock.Option) (Locker, error)) {
	text := os.Getenv(orderVar)
	if text == "" {
		return
	}
	if err := work(text, open); err != nil {
		fmt.Fprintln(os.Stderr, "locktest: worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// work talks with the suite: it says "ready" once it holds the lock, or is
// about to ask for it, with a number; the end of its input is its end.
func work(text string, open func(opts ...fencelock.Option) (Locker, error)) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	l, err := open(fencelock.TTL(o.TTL), fencelock.Passes(o.Passes))
	if err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	if o.Goroutines == 0 {
		lock, err := l.Acquire(context.Background(), o.Name)
		if err != nil {
			return err
		}
		go func() {
			<-lock.Lost()
			fmt.Println("lost", lock.Token())
		}()
		fmt.Println("ready", lock.Token())
		_, _ = io.Copy(io.Discard, in) // until killed, or the suite has gone
		return lock.Release(context.Background())
	}
	fmt.Println("ready", 0)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	n, err := rush(l, o)
	if err != nil {
		return err
	}
	if err := l.Close(context.Background()); err != nil { // before the suite ends this process
		return err
	}
	fmt.Println("done", n)
	return nil
}

// rush lets goroutines fight for one name and returns how often they got it.
func rush(l fencelock.Locker, o order) (int64, error) {
	var count atomic.Int64
	var failure atomic.Pointer[error]
	var all sync.WaitGroup
	end := time.Now().Add(o.For)
	for range o.Goroutines {
		all.Go(func() {
			for time.Now().Before(end) {
				lock, err := l.Acquire(context.Background(), o.Name)
				if err == nil {
					if time.Now().Before(end) {
						count.Add(1)
					}
					err = lock.Release(context.Background())
				}
				if err != nil {
					failure.Store(&err)
					return
				}
			}
		})
	}
	all.Wait()
	if err := failure.Load(); err != nil {
		return 0, *err
	}
	return count.Load(), nil
}

// worker is the suite's end of a process.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start returns a worker that has said "ready", and the number it said.
func (k *kit) start(o order) (*worker, int64) {
	w := k.launch(o)
	n, err := w.read("ready")
	if err != nil {
		k.Fatal(err)
	}
	return w, n
}

func (k *kit) launch(o order) *worker {
	cmd := k.b.Worker(k)
	text, err := json.Marshal(o)
	if err != nil {
		k.Fatal(err)
	}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, orderVar+"="+string(text))
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		k.Fatal(err1, err2)
	}
	if err := cmd.Start(); err != nil {
		k.Fatal(err)
	}
	w := &worker{cmd, in, bufio.NewReader(out)}
	k.Cleanup(w.kill)
	return w
}

func (w *worker) read(word string) (int64, error) {
	line, err := w.out.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("locktest: a worker has ended early: %w", err)
	}
	var said string
	var n int64
	if _, err := fmt.Sscan(line, &said, &n); err != nil || said != word {
		return 0, fmt.Errorf("locktest: a worker says %q, want %q and a number", line, word)
	}
	return n, nil
}

// kill ends the process without warning and waits for it.
func (w *worker) kill() {
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
}
