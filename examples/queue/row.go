package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// fence is whether the job's row is asked before a job is finished.
type fence struct {
	name  string
	asked bool
}

var fences = []fence{{name: "none"}, {name: "row", asked: admitting}}

// row is what came of one round.
type row struct {
	Fence     string  `json:"fence"`
	Jobs      int     `json:"jobs"`
	Done      int     `json:"done"`
	Twice     int     `json:"twice"`      // jobs that were done more than once
	TakenOver int     `json:"taken_over"` // jobs that a second worker took from the first
	Refused   int     `json:"refused"`    // late writes that the fence refused
	Seconds   float64 `json:"seconds"`
	Workers   []int   `json:"workers"` // what each that did any has done
}

// count looks at the jobs.
func count(ctx context.Context, pool *pgxpool.Pool) (r row, err error) {
	err = pool.QueryRow(ctx, `
		SELECT count(*), count(*) FILTER (WHERE done > 0), count(*) FILTER (WHERE done > 1), count(*) FILTER (WHERE tries > 1)
		FROM (SELECT tries, (SELECT count(*) FROM effects WHERE job = id) AS done FROM jobs) j`).
		Scan(&r.Jobs, &r.Done, &r.Twice, &r.TakenOver)
	if err != nil {
		return r, err
	}
	rows, err := pool.Query(ctx, `SELECT count(*)::int FROM effects GROUP BY worker ORDER BY worker`)
	if err == nil {
		r.Workers, err = pgx.CollectRows(rows, pgx.RowTo[int])
	}
	return r, err
}

// Check returns what is wrong with a row: a job that was not done exactly once
// although there is a fence, or a round that showed nothing.
func (r row) Check() (wrong []string) {
	say := func(format string, args ...any) {
		wrong = append(wrong, "fence "+r.Fence+": "+fmt.Sprintf(format, args...))
	}
	if r.Done != r.Jobs {
		say("%d of %d jobs are done", r.Done, r.Jobs)
	}
	if r.TakenOver < 2 {
		say("%d jobs were taken over from a dead and a stopped worker, so this shows nothing", r.TakenOver)
	}
	switch fenced := r.Fence != fences[0].name; {
	case fenced && r.Twice > 0:
		say("%d jobs were done twice", r.Twice)
	case fenced && r.Refused == 0:
		say("the fence refused nothing, so this shows nothing")
	case !fenced && r.Twice == 0:
		say("no job was done twice, so this shows nothing")
	}
	return wrong
}

// printTable prints rows for people.
func printTable(w io.Writer, rows []row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "fence\tjobs\tdone\tdone twice\ttaken over\trefused\tseconds\tby worker\t\n")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%.1f\t%s\t\n", r.Fence, r.Jobs, r.Done, r.Twice, r.TakenOver, r.Refused, r.Seconds,
			strings.Trim(fmt.Sprint(r.Workers), "[]"))
	}
	return t.Flush()
}
