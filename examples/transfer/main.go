// Command transfer moves money between accounts in PostgreSQL, from several
// processes, and counts it afterwards: without a lock, under a lease, under a
// lease with a fence, and with locks that are part of the transaction. Meanwhile
// processes are stopped in mid-transfer.
//
// Start reading at transfer.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/fencelock/fencelock/examples/internal/child"
	"github.com/fencelock/fencelock/examples/internal/report"
)

func main() {
	child.Main(workerEnv, runWorker)
	report.Main("transfer", parse, func(ctx context.Context, s settings, each func(row)) error {
		return run(ctx, s, func(r row) {
			fmt.Fprintf(os.Stderr, "%s: %d transfers\n", r.Arm, r.Transfers)
			each(r)
		})
	}, printTable)
}

// parse reads the command line. It prints what is wrong with it.
func parse(args []string, output io.Writer) (s settings, asJSON bool, err error) {
	f := flag.NewFlagSet("transfer", flag.ContinueOnError)
	f.SetOutput(output)
	f.StringVar(&s.URL, "db", "", "`URL` of a running PostgreSQL, instead of one that is started from this machine's programs")
	f.DurationVar(&s.Length, "d", 6*time.Second, "`length` of each arm")
	f.IntVar(&s.Workers, "workers", 4, "`number` of processes")
	f.IntVar(&s.Accounts, "accounts", 4, "`number` of accounts")
	f.DurationVar(&s.TTL, "ttl", 400*time.Millisecond, "`TTL` of the leases; processes are stopped for three times as long")
	f.DurationVar(&s.Work, "work", 20*time.Millisecond, "`time` between the reads and the writes of a transfer")
	f.StringVar(&s.Arm, "arm", "", "`name` of the only arm to run")
	f.BoolVar(&asJSON, "json", false, "print one JSON object a row instead of the table")
	if err := f.Parse(args); err != nil {
		return s, asJSON, err
	}
	switch {
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	case s.Arm != "" && !slices.ContainsFunc(arms, func(a arm) bool { return a.name == s.Arm }):
		err = fmt.Errorf("there is no arm %q", s.Arm)
	case s.Workers < 2 || s.Accounts < 2:
		err = errors.New("a transfer takes at least two accounts, and a conflict two workers")
	case s.Length < 5*s.TTL:
		err = fmt.Errorf("-d %v is too short for a process to be stopped for %v", s.Length, 3*s.TTL)
	}
	if err != nil {
		fmt.Fprintln(output, "transfer:", err)
	}
	return s, asJSON, err
}
