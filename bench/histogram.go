package main

import (
	"maps"
	"math"
	"slices"
	"time"
)

// histogram counts durations by their logarithm, in steps of 2 %.
type histogram map[int]int

const step = 1.02

func (h histogram) add(d time.Duration) {
	h[int(math.Log(max(1, float64(d)/float64(time.Microsecond)))/math.Log(step))]++
}

func (h histogram) merge(o histogram) {
	for bucket, n := range o {
		h[bucket] += n
	}
}

func (h histogram) count() (n int) {
	for _, c := range h {
		n += c
	}
	return n
}

// quantile returns the microseconds below which a part q of the durations lies.
func (h histogram) quantile(q float64) float64 {
	rest := q * float64(h.count())
	last := 0.0
	for _, bucket := range slices.Sorted(maps.Keys(h)) {
		last = math.Pow(step, float64(bucket)+0.5)
		if rest -= float64(h[bucket]); rest <= 0 {
			break
		}
	}
	return last
}
