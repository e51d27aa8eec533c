package etcd_test

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"testing"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fencelock/fencelock/etcd"
	"github.com/fencelock/fencelock/internal/testlock"
	"github.com/fencelock/fencelock/internal/testserver"
)

// BenchmarkUncontended compares with concurrency.Mutex, in turns, so that what else
// the machine does falls on both.
func BenchmarkUncontended(b *testing.B) {
	for _, start := range []struct {
		name string
		f    func() []string
	}{
		{"single", func() []string { return one(testserver.StartEtcd(b)) }},
		{"cluster", func() []string { return testserver.EtcdCluster(b).Addrs()[:1] }},
	} {
		b.Run(start.name, func(b *testing.B) {
			addrs := start.f()
			ctx, l := context.Background(), open(b, addrs)
			session, err := concurrency.NewSession(client(b, addrs...))
			if err != nil {
				b.Fatal(err)
			}
			defer session.Close()
			testlock.Compare(b, 1, 20, "peer",
				func(int) error { return cycle(ctx, session, "theirs/n") },
				func(int) error { return testlock.Once(ctx, l, "n") })
		})
	}
}

// cycle locks and unlocks concurrency.Mutex.
func cycle(ctx context.Context, s *concurrency.Session, name string) error {
	m := concurrency.NewMutex(s, name)
	if err := m.Lock(ctx); err != nil {
		return err
	}
	return m.Unlock(ctx)
}

// BenchmarkHotName has four processes fight for one name, in turns with
// concurrency.Mutex.
func BenchmarkHotName(b *testing.B) {
	for _, goroutines := range []int{1, 10} {
		b.Run(fmt.Sprintf("4x%d", goroutines), func(b *testing.B) {
			testlock.Fight(b, testserver.StartEtcd(b).Addr(), goroutines)
		})
	}
}

// fight is the worker of testlock.Fight. The peer needs a session for each
// goroutine: within one it does not exclude.
func fight(args []string, in io.Reader, out io.Writer) error {
	kind, addr := args[0], args[1]
	goroutines, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	ctx := context.Background()
	c, err := dial([]string{addr})
	if err != nil {
		return err
	}
	defer c.Close()
	l, err := etcd.New(c)
	if err != nil {
		return err
	}
	defer l.Close(ctx) //nolint:errcheck // the process ends
	cycles := make([]func() error, goroutines)
	for i := range cycles {
		if kind == "ours" {
			cycles[i] = func() error { return testlock.Once(ctx, l, "hot") }
			continue
		}
		session, err := concurrency.NewSession(c)
		if err != nil {
			return err
		}
		defer session.Close()
		cycles[i] = func() error { return cycle(ctx, session, "theirs/hot") }
	}
	return testlock.Rounds(cycles, in, out)
}
