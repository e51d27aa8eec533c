// Command queue has several processes drain a table of jobs in PostgreSQL, each
// job under a lock of its own. One process is killed in mid-job, and another does
// the job; one is stopped in mid-job until another has done it, and then goes on:
// without a fence that job is done twice.
//
// Start reading at drain.go.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/fencelock/fencelock/examples/internal/child"
	"github.com/fencelock/fencelock/examples/internal/report"
)

func main() {
	child.Main(workerEnv, runWorker)
	report.Main("queue", parse, run, printTable)
}

// parse reads the command line. It prints what is wrong with it.
func parse(args []string, output io.Writer) (s settings, asJSON bool, err error) {
	f := flag.NewFlagSet("queue", flag.ContinueOnError)
	f.SetOutput(output)
	f.StringVar(&s.URL, "db", "", "`URL` of a running PostgreSQL, instead of one that is started from this machine's programs")
	f.StringVar(&s.Style, "style", "lease", "`kind` of locks: lease, advisory or row")
	f.IntVar(&s.Jobs, "jobs", 200, "`number` of jobs")
	f.IntVar(&s.Workers, "workers", 4, "`number` of processes")
	f.DurationVar(&s.TTL, "ttl", 2*time.Second, "`TTL` of the locks")
	f.DurationVar(&s.Work, "work", 50*time.Millisecond, "`time` that a job takes")
	f.BoolVar(&asJSON, "json", false, "print one JSON object a row instead of the table")
	if err := f.Parse(args); err != nil {
		return s, asJSON, err
	}
	switch {
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	case styles[s.Style] == nil:
		err = fmt.Errorf("there is no style %q, only lease, advisory and row", s.Style)
	case s.Workers < 3:
		err = errors.New("one worker is killed and one is stopped: there must be a third")
	case s.Jobs < 2*s.Workers:
		err = errors.New("there must be two jobs for each worker")
	}
	if err != nil {
		fmt.Fprintln(output, "queue:", err)
	}
	return s, asJSON, err
}
