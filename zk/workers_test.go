package zk_test

import (
	"io"
	"strings"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testlock"
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
		return testlock.Hold(l, args[1], in, out)
	})
}
