package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// published are the figures of the experiment that this one does again, with
// Redisson's kind of Redlock: 100 coupons, 40 users, 25 s, TTL 1 s, wait 2 s.
var published = map[[2]string]string{
	{"normal", "none"}:      "100/100/0/0, sold out 41, time-outs 440, total 581",
	{"clock-step", "none"}:  "103/100/0/3, sold out 199, time-outs 344, total 646",
	{"clock-step", "redis"}: "100/100/0/0, time-outs 348, refused 45, p95 token 0.81 ms",
	{"clock-step", "db"}:    "100/100/0/0, time-outs 351, refused 54, p95 token 7.91 ms",
}

// printTable prints rows for people.
func printTable(w io.Writer, rows []row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "scenario\tfence\t200\trows\tremaining\tphantom\tsold out\ttime-outs\trefused\ttotal\tlocks/s\tp95 token\t\v published (200/rows/remaining/phantom)\n")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f\t%s\t\v %s\n",
			r.Scenario, r.Fence, r.OK, r.Rows, r.Remaining, r.Phantom, r.SoldOut, r.Timeouts, r.Refused, r.Total,
			r.LocksPerS, r.tokenTime(), published[[2]string{r.Scenario, string(r.Fence)}])
	}
	return t.Flush()
}

func (r row) tokenTime() string {
	switch {
	case r.Fence == fenceNone:
		return "no token"
	case r.P95TokenUS == 0:
		return "with lock"
	default:
		return fmt.Sprintf("%.2f ms", float64(r.P95TokenUS)/1000)
	}
}
