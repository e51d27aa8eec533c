// Command bench runs fencelock and its peers side by side: the same work, on the
// same servers, by turns, so that what else the machine does falls on all of
// them. It starts the servers whose programs it finds.
//
//	go -C bench run . [-only solo,hot] [-who redis] [-rounds 3] [-d 2s] [-json] [-plot curves.svg]
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	runWorker()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(bench(ctx, os.Args[1:], os.Stdout))
}

// runWorker does not return in a worker process.
func runWorker() {
	if spec := os.Getenv(workerEnv); spec != "" {
		exit(work(spec, os.Stdin, os.Stdout))
	}
}

func exit(err error) {
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func bench(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := flags.String("only", "", "comma-separated `workloads`: "+strings.Join(names(), ", ")+"; all by default")
	who := flags.String("who", "", "comma-separated beginnings of the `kinds` of servers: redis, redlock, pg, etcd, zk; all by default")
	rounds := flags.Int("rounds", 3, "how often each is run; medians are printed")
	lasts := flags.Duration("d", 2*time.Second, "how long a run lasts")
	asJSON := flags.Bool("json", false, "print one JSON object a line")
	plot := flags.String("plot", "", "write the distribution of waits as SVG to this `file`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *rounds < 1 || *lasts < 100*time.Millisecond || flags.NArg() > 0 {
		return fmt.Errorf("-rounds must be at least 1, -d at least 100ms, and there are no arguments: %q", flags.Args())
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	m := newMachine()
	defer m.Stop() //nolint:errcheck // throw-away servers

	var rows []row
	for _, w := range chosen {
		got, err := w.run(ctx, m, field(m.there(*who), w), *rounds, *lasts)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		rows = append(rows, got...)
		if !*asJSON {
			printRows(out, w, got)
		}
	}
	ratios := compare(rows)
	if *asJSON {
		enc := json.NewEncoder(out)
		for _, r := range rows {
			err = errors.Join(err, enc.Encode(r))
		}
		for _, r := range ratios {
			err = errors.Join(err, enc.Encode(r))
		}
	} else {
		printRatios(out, ratios)
	}
	if *plot != "" {
		err = errors.Join(err, os.WriteFile(*plot, curves(rows), 0o644)) //nolint:gosec // a picture for everybody
	}
	return err
}

// choose returns the workloads of a comma-separated list.
func choose(list string) (chosen []workload, err error) {
	if list == "" {
		return workloads, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(workloads, func(w workload) bool { return w.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no workload %q, only %s", name, strings.Join(names(), ", "))
		}
		chosen = append(chosen, workloads[i])
	}
	return chosen, nil
}

func names() (names []string) {
	for _, w := range workloads {
		names = append(names, w.name)
	}
	return names
}

// field returns those contenders that can do w.
func field(all []contender, w workload) []contender {
	return slices.DeleteFunc(all, func(c contender) bool {
		return w.ours && c.peer || w.contended() && c.floor || len(w.kinds) > 0 && !slices.Contains(w.kinds, c.kind)
	})
}

func printRows(out io.Writer, w workload, rows []row) {
	fmt.Fprintf(out, "\n%s: %s\n%-34s %10s %9s %9s %9s %9s %9s %7s %6s\n", w.name, w.what,
		"", "locks/s", "p50 ms", "p95 ms", "p99 ms", "max ms", "time-outs", "cmds", "fair")
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(b.Locks, a.Locks))
	})
	for _, r := range rows {
		fmt.Fprintf(out, "%-34s %10.0f %9.2f %9.2f %9.2f %9.2f %9d %7.1f %6.2f", r.Who, r.Locks,
			r.P50/1000, r.P95/1000, r.P99/1000, r.Max/1000, r.Timeouts, r.Commands, r.Unfair)
		if r.Extra != "" {
			fmt.Fprintf(out, "  %s", r.Extra)
		}
		fmt.Fprintln(out)
	}
}

func printRatios(out io.Writer, ratios []ratio) {
	fmt.Fprintf(out, "\n%-78s %9s %9s\n", "", "measured", "wanted")
	for _, r := range ratios {
		what, verdict := fmt.Sprintf("%s: %s, %s", r.Workload, r.Ours, r.Figure), ""
		if r.Peer != "" {
			what += " / " + r.Peer
		}
		if !r.met() {
			verdict = "  MISSED"
		}
		fmt.Fprintf(out, "%-78s %9.2f %9s%s\n", what, r.Ratio, r.wanted(), verdict)
	}
}
