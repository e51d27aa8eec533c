package zk_test

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock/internal/testlock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/zk"
)

// BenchmarkUncontended compares with go-zookeeper's Lock, in turns, so that what
// else the machine does falls on both.
func BenchmarkUncontended(b *testing.B) {
	for _, start := range []struct {
		name string
		f    func() []string
	}{
		{"single", func() []string { return one(testserver.StartZooKeeper(b, noReaping)) }},
		{"ensemble", func() []string { return testserver.ZooKeeperEnsemble(b, noReaping).Addrs()[:1] }},
	} {
		b.Run(start.name, func(b *testing.B) {
			addrs := start.f()
			ctx, l := context.Background(), open(b, addrs)
			theirs := gozk.NewLock(client(b, addrs...), "/theirs/n", gozk.WorldACL(gozk.PermAll))
			testlock.Compare(b, 1, 20, "peer", func(int) error {
				if err := theirs.Lock(); err != nil {
					return err
				}
				return theirs.Unlock()
			}, func(int) error { return testlock.Once(ctx, l, "n") })
		})
	}
}

// BenchmarkHotName has four processes with ten goroutines each fight for one name,
// in turns with go-zookeeper's Lock.
func BenchmarkHotName(b *testing.B) {
	for _, goroutines := range []int{1, 10} {
		b.Run(fmt.Sprintf("4x%d", goroutines), func(b *testing.B) {
			testlock.Fight(b, testserver.StartZooKeeper(b, noReaping).Addr(), goroutines)
		})
	}
}

// fight is the worker of testlock.Fight.
func fight(args []string, in io.Reader, out io.Writer) error {
	kind, addrs := args[0], strings.Split(args[1], ",")
	goroutines, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	ctx := context.Background()
	l, err := zk.New(addrs)
	if err != nil {
		return err
	}
	defer l.Close(ctx)
	c, _, err := gozk.Connect(addrs, 20*time.Second, gozk.WithLogger(silent{}))
	if err != nil {
		return err
	}
	defer c.Close()
	cycles := make([]func() error, goroutines)
	for i := range cycles {
		theirs := gozk.NewLock(c, "/theirs/hot", gozk.WorldACL(gozk.PermAll))
		cycles[i] = func() error {
			if err := theirs.Lock(); err != nil {
				return err
			}
			return theirs.Unlock()
		}
		if kind == "ours" {
			cycles[i] = func() error { return testlock.Once(ctx, l, "hot") }
		}
	}
	return testlock.Rounds(cycles, in, out)
}
