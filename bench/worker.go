package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

const workerEnv = "FENCELOCK_BENCH_WORKER"

// order is what a worker process gets to do.
type order struct {
	Who        string
	Addrs      []string
	Goroutines int
	Lockers    int           // that the goroutines share; 0: one
	Own        bool          // a name each
	Hold       time.Duration // 0: none
	Lasts      time.Duration
	Patience   time.Duration // how long an acquisition may take
	Name       string
	Mode       string // "" or holding
}

// report is what it has to say then.
type report struct {
	Waits    histogram
	Locks    int
	Held     time.Duration // in all
	Timeouts int
	Failure  string

	Heap     float64 // in MB; these if they hold
	Routines int
	CPU      time.Duration
}

// work is the main function of a worker process. It says when it is ready, and
// begins when it gets a line.
func work(spec string, in io.Reader, out io.Writer) error {
	var o order
	if err := json.Unmarshal([]byte(spec), &o); err != nil {
		return err
	}
	var lockers []locker
	for range max(1, o.Lockers) {
		l, err := open(o.Who, o.Addrs)
		if err != nil {
			return err
		}
		defer l.Close() //nolint:errcheck // the process ends
		lockers = append(lockers, l)
		// What comes first is not what is to be measured.
		if err := once(l, fmt.Sprint(o.Name, "-warm/", os.Getpid())); err != nil {
			return err
		}
	}
	var begin func() report
	if o.Mode == holding {
		var err error
		if begin, err = o.holdMany(lockers[0].(ours)); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "ready")
	if _, err := bufio.NewReader(in).ReadString('\n'); err != nil {
		return err
	}
	if begin != nil {
		exit(json.NewEncoder(out).Encode(begin())) // without the releases, which would be counted
	}
	reports := make([]report, o.Goroutines)
	end := time.Now().Add(o.Lasts)
	var all sync.WaitGroup
	for g := range reports {
		name := o.Name
		if o.Own {
			name = fmt.Sprint(o.Name, "/", os.Getpid(), "/", g)
		}
		all.Go(func() { reports[g] = o.contend(lockers[g%len(lockers)], name, end) })
	}
	all.Wait()
	sum := report{Waits: make(histogram)}
	for _, r := range reports {
		sum.add(r)
	}
	return json.NewEncoder(out).Encode(sum)
}

func open(who string, addrs []string) (locker, error) {
	for _, c := range contenders {
		if c.who == who {
			return c.open(addrs)
		}
	}
	return nil, fmt.Errorf("nobody is called %q", who)
}

func once(l locker, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	unlock, err := l.Lock(ctx, name)
	if err != nil {
		return err
	}
	return unlock(ctx)
}

// contend locks and unlocks until the end.
func (o order) contend(l locker, name string, end time.Time) report {
	r := report{Waits: make(histogram)}
	ctx := context.Background()
	for start := time.Now(); start.Before(end); start = time.Now() {
		bounded, cancel := context.WithTimeout(ctx, o.Patience)
		unlock, err := l.Lock(bounded, name)
		cancel()
		got := time.Now()
		switch {
		case err == nil:
		case errors.Is(bounded.Err(), context.DeadlineExceeded):
			r.Timeouts++
			r.Waits.add(got.Sub(start))
			continue
		default:
			r.Failure = err.Error()
			return r
		}
		r.Waits.add(got.Sub(start))
		if o.Hold > 0 {
			time.Sleep(o.Hold)
		}
		r.Held += time.Since(got)
		r.Locks++
		if err := unlock(ctx); err != nil {
			r.Failure = err.Error()
			return r
		}
	}
	return r
}

func (r *report) add(o report) {
	r.Waits.merge(o.Waits)
	r.Locks += o.Locks
	r.Held += o.Held
	r.Timeouts += o.Timeouts
	r.Heap, r.Routines, r.CPU = r.Heap+o.Heap, r.Routines+o.Routines, r.CPU+o.CPU
	if r.Failure == "" {
		r.Failure = o.Failure
	}
}

// process is a worker.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// employ starts a worker and waits until it is ready.
func employ(ctx context.Context, o order) (*process, error) {
	spec, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self)}
	p.cmd.Env = append(os.Environ(), workerEnv+"="+string(spec))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := p.out.ReadString('\n'); line != "ready\n" {
		return nil, errors.Join(fmt.Errorf("%s does not begin: %q, %w", o.Who, line, err), p.cmd.Wait())
	}
	return p, nil
}

func (p *process) start() error {
	_, err := fmt.Fprintln(p.in, "go")
	return err
}

func (p *process) result() (r report, err error) {
	err = json.NewDecoder(p.out).Decode(&r)
	if err = errors.Join(err, p.cmd.Wait()); err == nil && r.Failure != "" {
		err = errors.New(r.Failure)
	}
	return r, err
}
