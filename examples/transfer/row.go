package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/jackc/pgx/v5/pgxpool"
)

// row is what came of one arm.
type row struct {
	Arm       string  `json:"arm"`
	Transfers int     `json:"transfers"`
	PerSecond float64 `json:"per_s"`
	Refused   int     `json:"refused"`  // writes that the fence refused
	Total     int64   `json:"total"`    // of all balances
	Expected  int64   `json:"expected"` // what it was before
	Off       int     `json:"off"`      // accounts whose balance is not what their ledger says
	Disorder  int     `json:"disorder"` // lines of the ledger that do not follow from the one with the next lower token
}

// count looks at the accounts.
func count(ctx context.Context, pool *pgxpool.Pool) (r row, err error) {
	err = pool.QueryRow(ctx, `
		SELECT
			(SELECT sum(balance) FROM accounts)::bigint,
			(SELECT count(*) FROM accounts a
				WHERE balance <> $1 + (SELECT coalesce(sum(amount), 0) FROM ledger WHERE account = a.name)),
			(SELECT count(*) FROM (
				SELECT balance - amount <> lag(balance, 1, $1) OVER (PARTITION BY account ORDER BY token) AS wrong
				FROM ledger WHERE token IS NOT NULL) l WHERE wrong)`,
		int64(opening)).Scan(&r.Total, &r.Off, &r.Disorder)
	return r, err
}

// Check returns what is wrong with a row: money that a safe arm lost, or an arm
// that showed nothing.
func (r row) Check() (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, r.Arm+": "+fmt.Sprintf(format, args...)) }
	var a arm
	for _, one := range arms {
		if one.name == r.Arm {
			a = one
		}
	}
	if r.Transfers == 0 {
		say("nothing was transferred")
	}
	if a.safe && (r.Total != r.Expected || r.Off > 0) {
		say("%d accounts are wrong, the total is %d instead of %d", r.Off, r.Total, r.Expected)
	}
	if a.safe && r.Disorder > 0 {
		say("%d tokens are out of order", r.Disorder)
	}
	if !a.safe && r.Off == 0 {
		say("no transfer was lost, so this shows nothing")
	}
	if a.fenced && r.Refused == 0 {
		say("the fence refused nothing, so this shows nothing")
	}
	return wrong
}

// printTable prints rows for people.
func printTable(w io.Writer, rows []row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "arm\ttransfers\tper second\trefused\taccounts off\ttotal\tbefore\tverdict\t\n")
	for _, r := range rows {
		verdict := "kept"
		if r.Off > 0 || r.Total != r.Expected {
			verdict = "lost"
		}
		fmt.Fprintf(t, "%s\t%d\t%.0f\t%d\t%d\t%d\t%d\t%s\t\n", r.Arm, r.Transfers, r.PerSecond, r.Refused, r.Off, r.Total, r.Expected, verdict)
	}
	return t.Flush()
}
