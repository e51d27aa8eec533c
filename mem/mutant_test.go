package mem

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/locktest"
)

// The conformance suite must fail for backends that break a promise. Each
// mutant is mem's driver with one guard removed, and names the case that must
// turn red.

// queuer is what the engine may use of mem's driver.
type queuer interface {
	lease.Driver
	lease.Queuer
	lease.Inspector
}

// faulty replaces some methods of a driver.
type faulty struct {
	queuer
	try     func(context.Context, lease.Request) (lease.Grant, error)
	queue   func(context.Context, lease.Request) (lease.Grant, error)
	renew   func(context.Context, []lease.Request, []lease.Grant, []error)
	release func(context.Context, lease.Request, lease.Grant) error
	undo    func(context.Context, lease.Request) error
	status  func(context.Context, string) (fencelock.Status, error)
	breaks  func(context.Context, string, fencelock.Token) error
}

func (f *faulty) Try(ctx context.Context, r lease.Request) (lease.Grant, error) {
	if f.try != nil {
		return f.try(ctx, r)
	}
	return f.queuer.Try(ctx, r)
}

func (f *faulty) Queue(ctx context.Context, r lease.Request) (lease.Grant, error) {
	if f.queue != nil {
		return f.queue(ctx, r)
	}
	return f.queuer.Queue(ctx, r)
}

func (f *faulty) Renew(ctx context.Context, rs []lease.Request, gs []lease.Grant, errs []error) {
	if f.renew != nil {
		f.renew(ctx, rs, gs, errs)
		return
	}
	f.queuer.Renew(ctx, rs, gs, errs)
}

func (f *faulty) Release(ctx context.Context, r lease.Request, g lease.Grant) error {
	if f.release != nil {
		return f.release(ctx, r, g)
	}
	return f.queuer.Release(ctx, r, g)
}

func (f *faulty) Undo(ctx context.Context, r lease.Request) error {
	if f.undo != nil {
		return f.undo(ctx, r)
	}
	return f.queuer.Undo(ctx, r)
}

func (f *faulty) Status(ctx context.Context, key string) (fencelock.Status, error) {
	if f.status != nil {
		return f.status(ctx, key)
	}
	return f.queuer.Status(ctx, key)
}

func (f *faulty) Break(ctx context.Context, key string, first fencelock.Token) error {
	if f.breaks != nil {
		return f.breaks(ctx, key, first)
	}
	return f.queuer.Break(ctx, key, first)
}

// request sends what is not in mem's protocol.
func request(ctx context.Context, d *driver, do func(now time.Time)) error {
	_, err := call(ctx, d.link, d.server, func(now time.Time) (struct{}, error) {
		do(now)
		return struct{}{}, nil
	})
	return err
}

var mutants = []struct {
	name   string
	cases  string // that must fail
	mutate func(d *driver, f *faulty)
}{
	{"older processes come first", "FairWithPasses FairWithoutPasses", func(d *driver, f *faulty) {
		rank := ranks.last.Add(1)
		f.queue = func(ctx context.Context, r lease.Request) (lease.Grant, error) {
			ranks.of.Store(r.Attempt, rank)
			return d.Queue(ctx, r)
		}
		f.release = func(ctx context.Context, r lease.Request, g lease.Grant) error {
			d.server.mu.Lock()
			slices.SortStableFunc(d.server.names[r.Key].queue, func(a, b *waiter) int {
				x, _ := ranks.of.Load(a.Attempt)
				y, _ := ranks.of.Load(b.Attempt)
				return cmp.Compare(x.(int64), y.(int64))
			})
			d.server.mu.Unlock()
			return d.Release(ctx, r, g)
		}
	}},
	{"release deletes whoever holds", "RenewalSparesTheNextHolder", func(d *driver, f *faulty) {
		f.release = func(ctx context.Context, r lease.Request, g lease.Grant) error {
			d.server.Expire(r.Key)
			return d.Release(ctx, r, g)
		}
	}},
	{"clean-up deletes whoever holds", "LateReleaseSparesTheNextHolder", func(d *driver, f *faulty) {
		f.undo = func(ctx context.Context, r lease.Request) error {
			return request(ctx, d, func(now time.Time) {
				_ = d.server.end(r, now)
				e := d.server.entry(r.Key, now)
				e.owner = ""
				d.server.settle(r.Key, e, now)
			})
		}
	}},
	{"renewal takes the lock back", "RenewalCreatesNothing RenewalSparesTheNextHolder RenewedAfterALoss", func(d *driver, f *faulty) {
		f.renew = func(ctx context.Context, rs []lease.Request, gs []lease.Grant, errs []error) {
			_ = request(ctx, d, func(now time.Time) {
				for i, r := range rs {
					e := d.server.entry(r.Key, now)
					e.owner = r.Attempt
					errs[i] = e.renew(r, now)
					gs[i].Since = time.Now()
				}
			})
		}
	}},
	{"clean-up leaves no grave", "CleanUpDoesNotOvertakeItsAttempt", func(d *driver, f *faulty) {
		f.undo = func(ctx context.Context, r lease.Request) error {
			return request(ctx, d, func(now time.Time) {
				_ = d.server.end(r, now)
				d.server.entry(r.Key, now).dead = nil
			})
		}
	}},
	{"no clean-up", "CancelledAcquireFreesTheLockAtOnce NothingIsLeftBehind WaitEndsOnTimeInTheQueue CloseUndoesPending", func(_ *driver, f *faulty) {
		f.undo = func(context.Context, lease.Request) error { return nil }
	}},
	{"the TTL counts from the grant's answer", "LossIsToldInTimeAfterALateGrant", func(d *driver, f *faulty) {
		f.queue = func(ctx context.Context, r lease.Request) (lease.Grant, error) {
			g, err := d.Queue(ctx, r)
			g.Since = time.Now()
			return g, err
		}
	}},
	{"the TTL counts from the renewal's answer", "LossIsToldInTimeAfterALateRenewal", func(d *driver, f *faulty) {
		f.renew = func(ctx context.Context, rs []lease.Request, gs []lease.Grant, errs []error) {
			d.Renew(ctx, rs, gs, errs)
			for i := range gs {
				if errs[i] == nil {
					gs[i].Since = time.Now()
				}
			}
		}
	}},
	{"a failed renewal is taken for a good one", "LossIsToldInTimeFrozen LossIsToldInTimeBlackHole LossIsToldInTimeCut", func(d *driver, f *faulty) {
		f.renew = func(ctx context.Context, rs []lease.Request, gs []lease.Grant, errs []error) {
			d.Renew(ctx, rs, gs, errs)
			for i, err := range errs {
				if err != nil && !errors.Is(err, fencelock.ErrLost) {
					errs[i], gs[i].Since = nil, time.Now()
				}
			}
		}
	}},
	{"a failed renewal is taken for a loss", "SurvivesAShortOutage LossIsToldInTimeCut", func(d *driver, f *faulty) {
		f.renew = func(ctx context.Context, rs []lease.Request, gs []lease.Grant, errs []error) {
			d.Renew(ctx, rs, gs, errs)
			for i, err := range errs {
				if err != nil {
					errs[i] = &fencelock.LostError{Reason: fencelock.SessionGone, Cause: err}
				}
			}
		}
	}},
	{"nothing is renewed", "LongerThanItsContext OneLossLeavesTheOthersHeld", func(_ *driver, f *faulty) {
		f.renew = func(_ context.Context, _ []lease.Request, _ []lease.Grant, errs []error) {
			for i := range errs {
				errs[i] = errors.New("not sent")
			}
		}
	}},
	{"the counter goes with the lock", "TokensRise OwnersDifferAndTokensRise", func(d *driver, f *faulty) {
		f.release = func(ctx context.Context, r lease.Request, g lease.Grant) error {
			err := d.Release(ctx, r, g)
			d.server.mu.Lock()
			d.server.step -= time.Second // else the clock would hide it
			d.server.names[r.Key].counter = 0
			d.server.mu.Unlock()
			return err
		}
	}},
	{"an acquire ignores its ctx", "WaitEndsOnTimeBlackHole CancelledAcquireFreesTheLockAtOnce", func(d *driver, f *faulty) {
		f.try = func(ctx context.Context, r lease.Request) (lease.Grant, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
			defer cancel()
			return d.Try(ctx, r)
		}
		f.queue = f.try
	}},
	{"every error is ErrHeld", "ErrorsTellApart WaitEndsOnTimeRefused", func(d *driver, f *faulty) {
		f.try = func(ctx context.Context, r lease.Request) (lease.Grant, error) {
			g, err := d.Try(ctx, r)
			if err != nil {
				err = fencelock.ErrHeld
			}
			return g, err
		}
	}},
	{"a refused attempt stays in the queue", "HeldByAnother NothingIsLeftBehind", func(d *driver, f *faulty) {
		f.try = func(ctx context.Context, r lease.Request) (lease.Grant, error) {
			g, err := d.Try(ctx, r)
			if errors.Is(err, fencelock.ErrHeld) {
				d.poll(r, func(lease.Grant, error) {})
			}
			return g, err
		}
	}},
	{"names differ by their letters only", "NamesAreIndependent", func(d *driver, f *faulty) {
		f.try = func(ctx context.Context, r lease.Request) (lease.Grant, error) {
			r.Key = strings.ToLower(r.Key)
			return d.Try(ctx, r)
		}
	}},
	{"any MinToken will do", "MinTokenFarAheadIsRefused", func(d *driver, f *faulty) {
		jump := func(ask func(context.Context, lease.Request) (lease.Grant, error)) func(context.Context, lease.Request) (lease.Grant, error) {
			return func(ctx context.Context, r lease.Request) (lease.Grant, error) {
				_ = request(ctx, d, func(now time.Time) {
					e := d.server.entry(r.Key, now)
					e.counter = max(e.counter, r.Min-1)
				})
				return ask(ctx, r)
			}
		}
		f.try, f.queue = jump(d.Try), jump(d.Queue)
	}},
	{"renewals go on after the release", "NoRenewalAfterRelease", func(d *driver, f *faulty) {
		f.release = func(ctx context.Context, r lease.Request, g lease.Grant) error {
			time.AfterFunc(time.Second, func() {
				_ = f.release(context.WithoutCancel(ctx), r, g)
			})
			return d.Release(ctx, r, g)
		}
	}},
	{"two may hold", "HeldByAnother OwnersDifferAndTokensRise NamesAreIndependent", func(d *driver, f *faulty) {
		f.try = func(ctx context.Context, r lease.Request) (lease.Grant, error) {
			d.server.Expire(r.Key)
			return d.Try(ctx, r)
		}
	}},
	{"a goroutine stays for each lock", "IdleLockerCostsNothing", func(d *driver, f *faulty) {
		f.release = func(ctx context.Context, r lease.Request, g lease.Grant) error {
			go func() { <-d.link.cut }()
			return d.Release(ctx, r, g)
		}
	}},
	{"whoever holds is broken", "BreakEndsOneHold", func(d *driver, f *faulty) {
		f.breaks = func(ctx context.Context, key string, _ fencelock.Token) error {
			s, err := d.Status(ctx, key)
			return errors.Join(err, d.Break(ctx, key, s.Token))
		}
	}},
	{"who is broken is taken for released", "BreakIsToldByTheRelease", func(d *driver, f *faulty) {
		f.breaks = func(ctx context.Context, key string, first fencelock.Token) error {
			return request(ctx, d, func(now time.Time) {
				if e := d.server.entry(key, now); e.first == first && e.owner != "" {
					_ = d.server.end(lease.Request{Key: key, Attempt: e.owner}, now)
				}
			})
		}
	}},
	{"a broken lock is passed on late", "BreakIsToldByTheRelease", func(d *driver, f *faulty) {
		f.breaks = func(ctx context.Context, key string, first fencelock.Token) error {
			return request(ctx, d, func(now time.Time) {
				if e := d.server.entry(key, now); e.first == first {
					e.bury(e.owner, false)
					e.owner, e.ends = "nobody", now.Add(7*time.Second)
					d.server.settle(key, e, now)
				}
			})
		}
	}},
	{"a break does nothing", "BreakEndsOneHold", func(_ *driver, f *faulty) {
		f.breaks = func(context.Context, string, fencelock.Token) error { return nil }
	}},
	{"the status is an old one", "StatusTellsTheHolder", func(d *driver, f *faulty) {
		var old fencelock.Status
		f.status = func(ctx context.Context, key string) (s fencelock.Status, err error) {
			s, err = d.Status(ctx, key)
			s, old = old, s
			return s, err
		}
	}},
	{"an expired grant is passed off as fresh", "NeverGrantedExpired", func(d *driver, f *faulty) {
		f.queue = func(ctx context.Context, r lease.Request) (lease.Grant, error) {
			g, err := d.Queue(ctx, r)
			g.Since = time.Now()
			return g, err
		}
	}},
}

// ranks say which process made an attempt.
var ranks struct {
	last atomic.Int64
	of   sync.Map
}

const mutantVar = "FENCELOCK_MEM_MUTANT"

// TestMutant is the suite on one mutant, in a process that TestMutants starts.
func TestMutant(t *testing.T) {
	for _, m := range mutants {
		if m.name != os.Getenv(mutantVar) {
			continue
		}
		locktest.Run(t, backend(NewServer(), func(s *Server, opts ...fencelock.Option) (*Locker, error) {
			l, err := New(s, opts...)
			if err != nil {
				return nil, err
			}
			set, err := lease.Settings("mem", append([]fencelock.Option{fencelock.Prefix("")}, opts...))
			if err != nil {
				return nil, err
			}
			d := &driver{s, l.link}
			f := &faulty{queuer: d}
			m.mutate(d, f)
			l.engine = lease.New(f, set)
			return l, nil
		}))
	}
}

var once sync.Once // with -count, one search is enough

func TestMutants(t *testing.T) {
	once.Do(func() {
		slots := make(chan struct{}, 6)
		var all sync.WaitGroup
		for _, m := range mutants {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				t.Run(m.name, func(t *testing.T) {
					cases := strings.Fields(m.cases)
					for n := 1; len(cases) > 0; n++ { // some need luck
						out := runMutant(t, m.name, cases)
						cases = slices.DeleteFunc(cases, func(c string) bool {
							return strings.Contains(out, "--- FAIL: TestMutant/"+c+" ")
						})
						if n == 3 && len(cases) > 0 {
							t.Fatalf("%q do not notice it:\n%s", cases, out)
						}
					}
				})
			})
		}
		all.Wait()
	})
}

// runMutant returns what the suite says of a mutant.
func runMutant(t *testing.T, name string, cases []string) string {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.short", "-test.run=^TestMutant$/^("+strings.Join(cases, "|")+")$")
	// A failure is one, also beside other cases.
	cmd.Env = append(os.Environ(), mutantVar+"="+name, "FENCELOCK_TEST_SOAK=1")
	out, _ := cmd.CombinedOutput()
	return string(out)
}
