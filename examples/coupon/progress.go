package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// progress is the line that says how the runs under way are doing.
type progress struct {
	w        io.Writer
	terminal bool // the line is written over; else there is one every few seconds
	start    time.Time
	title    string

	mu   sync.Mutex
	arms []progressArm
	stop chan struct{}
	done sync.WaitGroup
}

// progressArm is one run, whose buyers are nil until it has started.
type progressArm struct {
	fence  fenceKind
	buyers *buyers
}

// startProgress begins a new line for the runs of one scenario.
func startProgress(w io.Writer, title string, fences []fenceKind) *progress {
	p := &progress{w: w, start: time.Now(), title: title, stop: make(chan struct{})}
	for _, f := range fences {
		p.arms = append(p.arms, progressArm{fence: f})
	}
	every := 5 * time.Second
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.terminal, every = true, 200*time.Millisecond
		}
	}
	p.done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-p.stop:
				return
			case <-tick.C:
				p.print()
			}
		}
	})
	return p
}

// started says that a run has begun.
func (p *progress) started(fence fenceKind, b *buyers) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.arms {
		if p.arms[i].fence == fence {
			p.arms[i].buyers = b
		}
	}
}

// end prints the line a last time.
func (p *progress) end() {
	close(p.stop)
	p.done.Wait()
	p.print()
	if p.terminal {
		fmt.Fprintln(p.w)
	}
}

func (p *progress) print() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var line strings.Builder
	fmt.Fprintf(&line, "%s %3.0f s", p.title, time.Since(p.start).Seconds())
	for _, a := range p.arms {
		if a.buyers == nil {
			continue
		}
		fmt.Fprintf(&line, " | %s %d sold", a.fence, a.buyers.count(http.StatusOK))
		if n := a.buyers.count(http.StatusConflict); n > 0 {
			fmt.Fprintf(&line, ", %d refused", n)
		}
	}
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K", line.String())
	} else {
		fmt.Fprintln(p.w, line.String())
	}
}
