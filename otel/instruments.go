package otel

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

type instruments struct {
	acquisitions, losses, renewals, checks, warnings metric.Int64Counter
	held                                             metric.Int64UpDownCounter
	wait, hold                                       metric.Float64Histogram
}

// A wait may last microseconds, when a lock is passed on, and a hold hours.
var (
	waitBounds = metric.WithExplicitBucketBoundaries(.0001, .001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)
	holdBounds = metric.WithExplicitBucketBoundaries(.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 14400)
)

func newInstruments(m metric.Meter) (i instruments, err error) {
	var errs []error
	counter := func(name, unit, text string) metric.Int64Counter {
		c, err := m.Int64Counter("fencelock."+name, metric.WithUnit(unit), metric.WithDescription(text))
		errs = append(errs, err)
		return c
	}
	i.acquisitions = counter("acquisitions", "{acquisition}", "Calls of Acquire and TryAcquire, by result.")
	i.losses = counter("losses", "{loss}", "Holds that ended other than by their release, by reason.")
	i.renewals = counter("renewals", "{renewal}", "Answers to renewals, by result.")
	i.checks = counter("fence.checks", "{check}", "Tokens that a fence has admitted or refused.")
	i.warnings = counter("warnings", "{warning}", "Things noticed that endanger locks.")
	i.held, err = m.Int64UpDownCounter("fencelock.held", metric.WithUnit("{lock}"), metric.WithDescription("Locks held now."))
	errs = append(errs, err)
	i.wait, err = m.Float64Histogram("fencelock.wait.duration", metric.WithUnit("s"), waitBounds,
		metric.WithDescription("From the call of Acquire to its return."))
	errs = append(errs, err)
	i.hold, err = m.Float64Histogram("fencelock.hold.duration", metric.WithUnit("s"), holdBounds,
		metric.WithDescription("From the grant to the release or the loss."))
	return i, errors.Join(append(errs, err)...)
}
