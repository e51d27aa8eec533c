// Package otel reports what happens to locks by OpenTelemetry: metrics and spans.
//
//	observer, err := fencelockotel.New() // import fencelockotel "github.com/fencelock/fencelock/otel"
//	...
//	locker, err := redis.New(client, fencelock.Observe(observer.Observe))
//	fence = observer.Fence(fence)
//
// The metrics, all with the attributes given by [Attributes]:
//
//	fencelock.acquisitions    counter    {acquisition}  fencelock.result, fencelock.passed
//	fencelock.wait.duration   histogram  s              fencelock.result, fencelock.passed
//	fencelock.held            up-down    {lock}         the locks held now
//	fencelock.hold.duration   histogram  s
//	fencelock.losses          counter    {loss}         fencelock.reason
//	fencelock.renewals        counter    {renewal}      fencelock.result: ok, error
//	fencelock.fence.checks    counter    {check}        fencelock.result: admitted, refused, error
//	fencelock.warnings        counter    {warning}
//
// The result of an acquisition is acquired, held (somebody else has the lock),
// timeout or cancelled (the ctx ended the wait) or error (the server's or the
// client's); a pass is a lock that came from another goroutine of this process
// without a round trip. The reason of a loss is a [fencelock.Reason] with hyphens.
//
// The spans are "fencelock acquire", from the call to its return, and "fencelock
// hold", from there to the release or the loss; both are children of the span in
// the ctx of Acquire, have the name of the lock and its token, and the second has
// an event for each renewal that failed.
//
// Names of locks are no attributes of metrics unless [Names] is given: there may
// be as many as there are invoices.
package otel

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencelock/fencelock"
)

const scope = "github.com/fencelock/fencelock/otel"

// The attributes of our own.
const (
	nameKey   = attribute.Key("fencelock.name")
	tokenKey  = attribute.Key("fencelock.token")
	passedKey = attribute.Key("fencelock.passed")
	resultKey = attribute.Key("fencelock.result")
	reasonKey = attribute.Key("fencelock.reason")
)

// Option sets one thing about an Observer.
type Option func(*config)

type config struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	common  []attribute.KeyValue
	names   bool
}

// MeterProvider sets where metrics go; the default is the global provider.
func MeterProvider(p metric.MeterProvider) Option { return func(c *config) { c.meters = p } }

// TracerProvider sets where spans go; the default is the global provider.
func TracerProvider(p trace.TracerProvider) Option { return func(c *config) { c.tracers = p } }

// Attributes are put on all metrics and spans: which backend, which Locker.
func Attributes(attrs ...attribute.KeyValue) Option {
	return func(c *config) { c.common = append(c.common, attrs...) }
}

// Names makes the name of the lock an attribute of the metrics, too. Only for
// programs whose names are few.
func Names() Option { return func(c *config) { c.names = true } }

// Observer reports the events of one Locker, or of several whose names do not
// meet. It is safe for concurrent use.
type Observer struct {
	config
	instruments
	tracer trace.Tracer

	mu    sync.Mutex
	holds map[key]hold
}

// key tells the holds of a Locker apart.
type key struct {
	name  string
	token fencelock.Token
}

type hold struct {
	since time.Time
	span  trace.Span
}

// New returns an Observer. It fails only if the provider refuses an instrument.
func New(opts ...Option) (*Observer, error) {
	o := &Observer{holds: make(map[key]hold)}
	for _, opt := range opts {
		opt(&o.config)
	}
	if o.meters == nil {
		o.meters = otel.GetMeterProvider()
	}
	if o.tracers == nil {
		o.tracers = otel.GetTracerProvider()
	}
	o.tracer = o.tracers.Tracer(scope)
	var err error
	o.instruments, err = newInstruments(o.meters.Meter(scope))
	return o, err
}

// Observe is for fencelock.Observe.
func (o *Observer) Observe(ctx context.Context, e fencelock.Event) {
	now := time.Now()
	switch e.Kind {
	case fencelock.EventAcquire:
		o.acquired(ctx, e, now)
	case fencelock.EventRenew:
		o.renewed(ctx, e)
	case fencelock.EventLose, fencelock.EventRelease:
		o.ended(ctx, e, now)
	case fencelock.EventWarn:
		o.warnings.Add(ctx, 1, o.with(e.Name))
	}
}

func (o *Observer) acquired(ctx context.Context, e fencelock.Event, now time.Time) {
	result := resultOf(e.Err)
	attrs := o.with(e.Name, resultKey.String(result), passedKey.Bool(e.Passed))
	o.acquisitions.Add(ctx, 1, attrs)
	o.wait.Record(ctx, now.Sub(e.Start).Seconds(), attrs)

	_, span := o.span(ctx, "acquire", e, e.Start)
	span.SetAttributes(resultKey.String(result), passedKey.Bool(e.Passed))
	if result != "acquired" && result != "held" {
		fail(span, e.Err)
	}
	span.End(trace.WithTimestamp(now))
	if e.Err != nil {
		return
	}
	o.held.Add(ctx, 1, o.with(e.Name))
	_, span = o.span(ctx, "hold", e, now)
	o.mu.Lock()
	o.holds[key{e.Name, e.Token}] = hold{now, span}
	o.mu.Unlock()
}

func resultOf(err error) string {
	switch {
	case err == nil:
		return "acquired"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, fencelock.ErrHeld):
		return "held"
	}
	return "error"
}

func (o *Observer) renewed(ctx context.Context, e fencelock.Event) {
	if e.Err == nil {
		o.renewals.Add(ctx, 1, o.with(e.Name, resultKey.String("ok")))
		return
	}
	o.renewals.Add(ctx, 1, o.with(e.Name, resultKey.String("error")))
	o.mu.Lock()
	h, ok := o.holds[key{e.Name, e.Token}]
	o.mu.Unlock()
	if ok {
		h.span.RecordError(e.Err)
	}
}

// ended is for a loss or a release, whichever has come first.
func (o *Observer) ended(ctx context.Context, e fencelock.Event, now time.Time) {
	k := key{e.Name, e.Token}
	o.mu.Lock()
	h, ok := o.holds[k]
	delete(o.holds, k)
	o.mu.Unlock()
	if !ok {
		return
	}
	o.held.Add(ctx, -1, o.with(e.Name))
	o.hold.Record(ctx, now.Sub(h.since).Seconds(), o.with(e.Name))
	var lost *fencelock.LostError
	if errors.As(e.Err, &lost) {
		reason := reasonKey.String(strings.ReplaceAll(string(lost.Reason), " ", "-"))
		o.losses.Add(ctx, 1, o.with(e.Name, reason))
		h.span.SetAttributes(reason)
	}
	if e.Err != nil {
		fail(h.span, e.Err)
	}
	h.span.End(trace.WithTimestamp(now))
}

func (o *Observer) span(ctx context.Context, what string, e fencelock.Event, start time.Time) (context.Context, trace.Span) {
	attrs := append([]attribute.KeyValue{nameKey.String(e.Name)}, o.common...)
	if e.Token > 0 {
		attrs = append(attrs, tokenKey.Int64(int64(e.Token)))
	}
	return o.tracer.Start(ctx, "fencelock "+what, trace.WithTimestamp(start),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
}

func fail(span trace.Span, err error) {
	span.RecordError(err)
	span.SetStatus(codes.Error, err.Error())
}

// with makes the attributes of a measurement.
func (o *Observer) with(name string, attrs ...attribute.KeyValue) metric.MeasurementOption {
	attrs = append(attrs, o.common...)
	if o.names && name != "" {
		attrs = append(attrs, nameKey.String(name))
	}
	return metric.WithAttributes(attrs...)
}
