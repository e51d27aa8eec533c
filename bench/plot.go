package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"slices"
)

// The picture's measures.
const (
	width, height = 760, 420
	left, right   = 60, 220
	top, bottom   = 30, 40
	nines         = 4 // the x axis goes to 99.99 %
	least         = 0.01
	most          = 10_000.0 // ms; the y axis
)

var colours = []string{"#2f81f7", "#d29922", "#3fb950", "#f85149", "#a371f7", "#8b949e", "#db6d28", "#39c5cf"}

// curves draws how long acquisitions of the workload "hot" took: the part of them
// that took longer is less by a power of ten at each mark to the right.
func curves(rows []row) []byte {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.Workload != "hot" || r.waits.count() == 0 })
	slices.SortStableFunc(rows, func(a, b row) int { return int(a.P99 - b.P99) })
	rows = rows[:min(len(rows), len(colours))]
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	b.WriteString("<style>text{fill:#57606a}line{stroke:#8b949e;stroke-opacity:.3}" +
		"@media(prefers-color-scheme:dark){text{fill:#c9d1d9}}</style>\n")
	text := func(x, y float64, anchor, s string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(s))
	}
	text(left, 18, "start", "Wait for one lock, 4 processes of 10 goroutines, hold 0 (ms, by percentile)")
	for i := range nines + 1 {
		x := across(float64(i))
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`+"\n", x, x, top, height-bottom)
		text(x, height-bottom+16, "middle", fmt.Sprintf("%.6g %%", 100*(1-math.Pow(10, -float64(i)))))
	}
	for ms := least; ms <= most; ms *= 10 {
		y := up(ms)
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`+"\n", left, width-right, y, y)
		text(left-6, y+4, "end", fmt.Sprintf("%g", ms))
	}
	for i, r := range rows {
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="2" points="`, colours[i])
		for n := 0.0; n <= nines; n += 0.05 {
			fmt.Fprintf(&b, "%.1f,%.1f ", across(n), up(r.waits.quantile(1-math.Pow(10, -n))/1000))
		}
		b.WriteString("\"/>\n")
		y := float64(top + 16 + 18*i)
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" style="stroke:%s;stroke-opacity:1;stroke-width:3"/>`+"\n",
			width-right+12, width-right+30, y-4, y-4, colours[i])
		text(width-right+36, y, "start", r.Who)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func across(n float64) float64 { return left + n/nines*(width-left-right) }

func up(ms float64) float64 {
	part := math.Log(min(max(ms, least), most)/least) / math.Log(most/least)
	return height - bottom - part*(height-top-bottom)
}
