package locktest

import (
	"os/exec"
	"testing"

	"go.uber.org/goleak"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/mem"
)

func TestMain(m *testing.M) {
	Work(func(opts ...fencelock.Option) (Locker, error) { return mem.New(mem.NewServer(), opts...) })
	goleak.VerifyTestMain(m)
}

// alone is a backend whose workers have a server each: it is for testing how the
// suite deals with processes.
func alone(t *testing.T) *kit {
	a := &attempt{TB: t}
	t.Cleanup(func() {
		for i := len(a.cleanups) - 1; i >= 0; i-- {
			a.cleanups[i]()
		}
		for _, f := range a.failures {
			t.Error(f)
		}
	})
	return &kit{attempt: a, b: Backend{Worker: func(testing.TB) *exec.Cmd { return Self("ANY=thing") }}}
}

func TestWorkersRush(t *testing.T) {
	counts := contest(alone(t), 3, order{Name: "n", TTL: calm, Goroutines: 4, For: calm / 600})
	if len(counts) != 3 {
		t.Fatalf("counts: %v", counts)
	}
	for _, n := range counts {
		if n == 0 {
			t.Errorf("counts: %v", counts)
		}
	}
}

func TestWorkerHoldsUntilKilled(t *testing.T) {
	k := alone(t)
	w, token := k.start(order{Name: "n", TTL: calm})
	if token <= 0 {
		t.Errorf("token %d", token)
	}
	w.kill()
	if _, err := w.read("lost"); err == nil {
		t.Error("a worker that was killed goes on talking")
	}
}

func TestWorkerReportsItsError(t *testing.T) {
	k := alone(t)
	w := k.launch(order{Name: "n", TTL: -1})
	if _, err := w.read("ready"); err == nil {
		t.Error("a worker with a bad order says that it is ready")
	}
}
