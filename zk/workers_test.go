package zk_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/zk"
)

// registerWorkers registers what other processes do in these tests.
func registerWorkers() {
	testserver.RegisterWorker("fight", fight)

	// hold acquires the name args[1] on the servers args[0] with the TTL args[2],
	// says so and holds it until its input ends.
	testserver.RegisterWorker("hold", func(args []string, in io.Reader, out io.Writer) error {
		ttl, err := time.ParseDuration(args[2])
		if err != nil {
			return err
		}
		l, err := zk.New(strings.Split(args[0], ","), fencelock.TTL(ttl))
		if err != nil {
			return err
		}
		defer l.Close(context.Background())
		lock, err := l.Acquire(context.Background(), args[1])
		if err != nil {
			return err
		}
		fmt.Fprintln(out, lock.Token())
		_, _ = io.Copy(io.Discard, in)
		return lock.Release(context.Background())
	})
}
