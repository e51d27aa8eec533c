// Command coupon sells coupons, first come first served, under a distributed
// lock, and lets you watch the lock fail and the fence save the sale.
//
// Several processes of one shop share a Redlock over three Redis nodes and a
// database. In the scenario "clock-step" the clocks of two nodes jump, in
// "pause" the process that holds the lock is stopped; either way two requests
// are in the critical section at once. Without a fence the shop then answers
// 200 to buyers who own nothing: phantom coupons.
//
// Start reading at sell.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/fencelock/fencelock/examples/internal/child"
	"github.com/fencelock/fencelock/examples/internal/report"
)

func main() {
	child.Main(shopEnv, runShop)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		os.Exit(2)
	}
	rows, err := experiment(ctx, s, os.Stderr)
	if s.JSON {
		err = errors.Join(err, report.PrintJSON(os.Stdout, rows))
	} else if len(rows) > 0 {
		err = errors.Join(err, printTable(os.Stdout, rows))
	}
	for _, r := range rows {
		if note := r.note(); note != "" {
			fmt.Fprintln(os.Stderr, "coupon: note:", note)
		}
		for _, wrong := range r.check() {
			err = errors.Join(err, errors.New(wrong))
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "coupon: this went wrong:\n%v\n", err)
		os.Exit(1)
	}
}
