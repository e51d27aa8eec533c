package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/examples/internal/machine"
	"github.com/fencelock/fencelock/zk"
)

// findKeeper starts the ZooKeeper of the fence zk if one is wanted and none is
// named, and returns a function that ends it, or takes away what the shops made in a
// running one. Where none can be started and nobody has asked for it by name, that
// fence is left out.
func (s *settings) findKeeper(log io.Writer) (dismiss func() error, err error) {
	nothing := func() error { return nil }
	wanted := slices.ContainsFunc(s.Scenarios, func(c scenario) bool { return slices.Contains(s.fences(c), fenceZK) })
	switch {
	case !wanted:
		return nothing, nil
	case len(s.Keepers) > 0:
		return func() error { return cleanKeeper(s.Keepers) }, nil
	}
	address, stop, err := machine.ZooKeeper()
	switch {
	case err == nil:
		s.Keepers = []string{address}
		return stop, nil
	case s.given["fence"]:
		return nil, fmt.Errorf("the fence zk: %w", err)
	default:
		s.noKeeper = true
		fmt.Fprintln(log, "coupon: without the fence zk:", err)
		return nothing, nil
	}
}

func openKeeper(addresses []string) (*gozk.Conn, error) {
	c, _, err := gozk.Connect(addresses, 10*time.Second, gozk.WithLogInfo(false))
	return c, err
}

// awaitKeeper mints a token, which says that the server is there and has the node
// that tokens come from.
func awaitKeeper(ctx context.Context, c *gozk.Conn) error {
	source, err := zk.NewTokens(c, fencelock.Prefix(lockPrefix))
	if err == nil {
		_, err = source.Next(ctx, "first")
	}
	return err
}

// cleanKeeper removes that node. Later tokens are greater all the same.
func cleanKeeper(addresses []string) error {
	c, err := openKeeper(addresses)
	if err != nil {
		return err
	}
	defer c.Close()
	defer time.AfterFunc(connectWait, c.Close).Stop() // its calls know no other end
	for _, path := range []string{"/fencelock-coupon/_tokens", "/fencelock-coupon"} {
		if e := c.Delete(path, -1); e != nil && !errors.Is(e, gozk.ErrNoNode) {
			err = errors.Join(err, fmt.Errorf("%s: %w", path, e))
		}
	}
	return err
}
