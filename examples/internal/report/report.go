// Package report is the main function of the examples that run a program of
// several processes, tell what came of it in rows, and check themselves that they
// have told the right story.
package report

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

// Row is one line of the report; Check says what is wrong with it.
type Row interface{ Check() []string }

// Main runs the program and ends the process if it went wrong. parse reads the
// command line, and prints itself what is wrong with it; print prints the rows as
// a table.
func Main[S any, R Row](
	name string,
	parse func(args []string, output io.Writer) (s S, asJSON bool, err error),
	run func(ctx context.Context, s S, each func(R)) error,
	print func(w io.Writer, rows []R) error,
) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, asJSON, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		os.Exit(2)
	}
	var rows []R
	err = run(ctx, s, func(r R) { rows = append(rows, r) })
	if asJSON {
		err = errors.Join(err, PrintJSON(os.Stdout, rows))
	} else if len(rows) > 0 {
		err = errors.Join(err, print(os.Stdout, rows))
	}
	for _, r := range rows {
		for _, wrong := range r.Check() {
			err = errors.Join(err, errors.New(wrong))
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: this went wrong:\n%v\n", name, err)
		os.Exit(1)
	}
}

// PrintJSON prints rows for programs, an object a line.
func PrintJSON[R any](w io.Writer, rows []R) error {
	out := json.NewEncoder(w)
	for _, r := range rows {
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	return nil
}
