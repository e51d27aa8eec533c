package locktest

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// attempts is how often a case is run that fails in company or while the machine
// stands still.
const attempts = 3

// attempt is a testing.TB that keeps a failure to itself: a machine that is busy
// with other work may hold this process up for longer than a TTL, and no lock
// that expires can stand that. A case that fails meanwhile, or beside others that
// keep the server busy, gets another chance by itself.
type attempt struct {
	testing.TB

	mu       sync.Mutex
	failures []string
	skipped  string
	cleanups []func()
}

// runner runs the cases of a suite.
type runner struct {
	t      *testing.T
	b      Backend
	stalls *stalls
}

// company is held for reading by a case that may have company, also that of another
// suite.
var company sync.RWMutex

// run runs a case as a subtest. With FENCELOCK_TEST_SOAK=1 a failure in company
// is one.
func (r *runner) run(c testCase) {
	r.t.Run(c.name, func(t *testing.T) {
		for n := 1; ; n++ {
			alone := c.alone || n > 1
			a, stall := r.try(t, c, alone)
			switch {
			case len(a.failures) == 0 && a.skipped != "":
				t.Skip(a.skipped)
			case len(a.failures) == 0:
				return
			case n < attempts && (stall > r.b.TTL/50 || !alone && !soak()):
				t.Logf("once more by itself; this process stood still for at most %v meanwhile:\n%s", stall, strings.Join(a.failures, "\n"))
				continue
			}
			t.Fatalf("attempt %d failed, this process stood still for at most %v:\n%s", n, stall, strings.Join(a.failures, "\n"))
		}
	})
}

// try runs a case once and returns how long this process stood still meanwhile.
func (r *runner) try(t *testing.T, c testCase, alone bool) (*attempt, time.Duration) {
	lock := company.RLocker()
	if alone {
		lock = &company
	}
	lock.Lock()
	defer lock.Unlock()
	a, start := &attempt{TB: t}, time.Now()
	a.guarded(func() { c.run(&kit{attempt: a, b: r.b}) })
	for len(a.cleanups) > 0 {
		last := a.cleanups[len(a.cleanups)-1]
		a.cleanups = a.cleanups[:len(a.cleanups)-1]
		a.guarded(last)
	}
	return a, r.stalls.since(start)
}

// guarded runs f in a goroutine that FailNow may end, and waits for it.
func (a *attempt) guarded(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func (a *attempt) fail(text string) {
	var at []string
	pcs := make([]uintptr, 16)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for f, more := frames.Next(); more; f, more = frames.Next() {
		if strings.Contains(f.Function, "locktest.") && !strings.Contains(f.Function, "locktest.(*attempt)") {
			at = append(at, fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line))
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures = append(a.failures, strings.Join(at, " < ")+": "+strings.TrimSuffix(text, "\n"))
}

func (a *attempt) Cleanup(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cleanups = append(a.cleanups, f)
}

func (a *attempt) Failed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.failures) > 0
}

func (a *attempt) Error(args ...any)                 { a.fail(fmt.Sprintln(args...)) }
func (a *attempt) Errorf(format string, args ...any) { a.fail(fmt.Sprintf(format, args...)) }
func (a *attempt) Fail()                             { a.fail("failed") }
func (a *attempt) Skipped() bool                     { return false }

func (a *attempt) FailNow() {
	if !a.Failed() {
		a.fail("failed")
	}
	runtime.Goexit()
}

func (a *attempt) Fatal(args ...any) {
	a.fail(fmt.Sprintln(args...))
	runtime.Goexit()
}

func (a *attempt) Fatalf(format string, args ...any) {
	a.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func (a *attempt) Skip(args ...any)                 { a.skip(fmt.Sprintln(args...)) }
func (a *attempt) Skipf(format string, args ...any) { a.skip(fmt.Sprintf(format, args...)) }
func (a *attempt) SkipNow()                         { a.skip("skipped") }

func (a *attempt) skip(text string) {
	a.mu.Lock()
	a.skipped = strings.TrimSpace(text)
	a.mu.Unlock()
	runtime.Goexit()
}

// stalls notices when this process does not get to run.
type stalls struct {
	mu    sync.Mutex
	seen  []stall
	stop  chan struct{}
	ended chan struct{}
}

type stall struct {
	until time.Time
	d     time.Duration
}

func watchStalls() *stalls {
	s := &stalls{stop: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		const step = 5 * time.Millisecond
		for last := time.Now(); ; {
			select {
			case <-s.stop:
				return
			case <-time.After(step):
			}
			now := time.Now()
			if d := now.Sub(last) - step; d > step {
				s.mu.Lock()
				s.seen = append(s.seen, stall{now, d})
				s.mu.Unlock()
			}
			last = now
		}
	}()
	return s
}

func (s *stalls) close() {
	close(s.stop)
	<-s.ended
}

// since returns the longest one since then.
func (s *stalls) since(then time.Time) (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.seen {
		if one.until.After(then) {
			longest = max(longest, one.d)
		}
	}
	return longest
}
