package otel_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/mem"
	fencelockotel "github.com/fencelock/fencelock/otel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// day is a small run, in synctest's time, in which everything happens. It is
// observed by o.
func day(t *testing.T, ctx context.Context, o *fencelockotel.Observer) {
	t.Helper()
	server := mem.NewServer()
	l, err := mem.New(server, fencelock.TTL(30*time.Second), fencelock.Observe(o.Observe))
	require.NoError(t, err)
	acquire := func(name string, opts ...fencelock.Option) fencelock.Lock {
		t.Helper()
		lock, err := l.Acquire(ctx, name, opts...)
		require.NoError(t, err)
		return lock
	}

	// A lock that is renewed, refused, and waited for in vain.
	lock := acquire("a")
	_, err = l.TryAcquire(ctx, "a")
	require.ErrorIs(t, err, fencelock.ErrHeld)
	_, err = l.Acquire(ctx, "a", fencelock.Wait(time.Second))
	require.ErrorIs(t, err, fencelock.ErrHeld)
	short, cancel := context.WithTimeout(ctx, time.Second)
	_, err = l.Acquire(short, "a")
	cancel()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, err = l.Acquire(gone, "a")
	require.ErrorIs(t, err, context.Canceled)
	time.Sleep(13 * time.Second)
	require.NoError(t, lock.Release(ctx)) // after 15 s, and one renewal

	// One that is passed on: from the first of two who wait to the second.
	lock = acquire("p")
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			next, err := l.Acquire(ctx, "p")
			if err == nil {
				err = next.Release(ctx)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	synctest.Wait() // they are in line
	time.Sleep(time.Millisecond)
	require.NoError(t, lock.Release(ctx))
	all.Wait()

	// One that is lost, and whose late write is refused.
	lock = acquire("b")
	time.Sleep(time.Second)
	server.Steal("b", time.Hour)
	<-lock.Lost()
	synctest.Wait()
	fence := o.Fence(mem.NewFence())
	require.NoError(t, fence.Admit(ctx, "b", lock.Token()+1))
	require.ErrorIs(t, fence.Admit(ctx, "b", lock.Token()), fencelock.ErrStale)
	o.Checked(ctx, "b", errors.New("the database is down"))

	// One whose loss only its release shows.
	lock = acquire("c")
	require.NoError(t, l.Break(ctx, "c", lock.Token()))
	require.ErrorIs(t, lock.Release(ctx), fencelock.ErrLost)

	// A server that fails while a lock is held, which is then closed.
	acquire("d")
	server.Fail(errors.New("the disk is full"))
	_, err = l.Acquire(ctx, "e")
	require.ErrorContains(t, err, "the disk is full")
	time.Sleep(11 * time.Second) // its first renewal fails, and is repeated
	synctest.Wait()
	server.Fail(nil)
	o.Observe(ctx, fencelock.Event{Kind: fencelock.EventWarn, Err: errors.New("it may evict locks")})
	require.NoError(t, l.Close(ctx))
	synctest.Wait()
}

// metrics reads the reader: for each metric, what was measured by attributes.
func metrics(t *testing.T, r metric.Reader) map[string]map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, r.Collect(context.Background(), &all))
	got := map[string]map[string]float64{}
	note := func(name string, attrs attribute.Set, v float64) {
		if got[name] == nil {
			got[name] = map[string]float64{}
		}
		got[name][attrs.Encoded(attribute.DefaultEncoder())] = v
	}
	require.Len(t, all.ScopeMetrics, 1)
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				note(m.Name, p.Attributes, float64(p.Value))
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				note(m.Name, p.Attributes, p.Sum)
				note(m.Name+" count", p.Attributes, float64(p.Count))
			}
		default:
			t.Errorf("%s is a %T", m.Name, data)
		}
	}
	return got
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := metric.NewManualReader()
		o, err := fencelockotel.New(fencelockotel.MeterProvider(metric.NewMeterProvider(metric.WithReader(reader))),
			fencelockotel.Attributes(attribute.String("at", "x")))
		require.NoError(t, err)
		day(t, context.Background(), o)
		got := metrics(t, reader)
		require.Equal(t, map[string]float64{
			"at=x,fencelock.passed=false,fencelock.result=acquired":  6,
			"at=x,fencelock.passed=true,fencelock.result=acquired":   1,
			"at=x,fencelock.passed=false,fencelock.result=held":      2,
			"at=x,fencelock.passed=false,fencelock.result=timeout":   1,
			"at=x,fencelock.passed=false,fencelock.result=cancelled": 1,
			"at=x,fencelock.passed=false,fencelock.result=error":     1,
		}, got["fencelock.acquisitions"])
		require.Equal(t, got["fencelock.acquisitions"], got["fencelock.wait.duration count"])
		waits := got["fencelock.wait.duration"]
		require.InDelta(t, 1, waits["at=x,fencelock.passed=false,fencelock.result=held"], 1e-6, "of Wait")
		require.InDelta(t, 1, waits["at=x,fencelock.passed=false,fencelock.result=timeout"], 1e-6, "of the ctx")
		require.InDelta(t, .001, waits["at=x,fencelock.passed=true,fencelock.result=acquired"], 1e-6, "of who was in line")
		require.Equal(t, map[string]float64{"at=x": 0}, got["fencelock.held"], "all have ended")
		require.Equal(t, map[string]float64{"at=x": 7}, got["fencelock.hold.duration count"])
		require.InDelta(t, 15+.001+10+11, got["fencelock.hold.duration"]["at=x"], .1, "a, p, b until its renewal, d until Close")
		require.Equal(t, map[string]float64{
			"at=x,fencelock.reason=taken-by-another":      1,
			"at=x,fencelock.reason=deleted-at-the-server": 1,
			"at=x,fencelock.reason=locker-closed":         1,
		}, got["fencelock.losses"])
		require.Equal(t, float64(1), got["fencelock.renewals"]["at=x,fencelock.result=ok"])
		require.GreaterOrEqual(t, got["fencelock.renewals"]["at=x,fencelock.result=error"], float64(2), "the taken one, and those of the full disk")
		require.Equal(t, map[string]float64{
			"at=x,fencelock.result=admitted": 1, "at=x,fencelock.result=refused": 1, "at=x,fencelock.result=error": 1,
		}, got["fencelock.fence.checks"])
		require.Equal(t, map[string]float64{"at=x": 1}, got["fencelock.warnings"])
	})
}

func TestHeldIsAGauge(t *testing.T) {
	reader := metric.NewManualReader()
	o, err := fencelockotel.New(fencelockotel.MeterProvider(metric.NewMeterProvider(metric.WithReader(reader))), fencelockotel.Names())
	require.NoError(t, err)
	l, err := mem.New(mem.NewServer(), fencelock.Observe(o.Observe))
	require.NoError(t, err)
	a, err := l.TryAcquire(t.Context(), "a")
	require.NoError(t, err)
	_, err = l.TryAcquire(t.Context(), "b")
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"fencelock.name=a": 1, "fencelock.name=b": 1}, metrics(t, reader)["fencelock.held"])
	require.NoError(t, l.Close(t.Context()))
	o.Observe(t.Context(), fencelock.Event{Kind: fencelock.EventRelease, Name: "a", Token: a.Token()}) // it ends once
	require.Equal(t, map[string]float64{"fencelock.name=a": 0, "fencelock.name=b": 0}, metrics(t, reader)["fencelock.held"])
}

func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		tracers := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
		o, err := fencelockotel.New(fencelockotel.TracerProvider(tracers))
		require.NoError(t, err)
		ctx, parent := tracers.Tracer("test").Start(context.Background(), "parent")
		day(t, ctx, o)
		parent.End()
		require.Len(t, spans.Started(), len(spans.Ended()), "every span has ended")
		count := map[string]int{}
		for _, s := range spans.Ended() {
			if s.Name() == "parent" {
				require.Len(t, s.Events(), 1, "the refusal of the fence")
				continue
			}
			require.Equal(t, parent.SpanContext().SpanID(), s.Parent().SpanID(), s.Name())
			attrs := map[string]string{}
			for _, a := range s.Attributes() {
				attrs[string(a.Key)] = a.Value.Emit()
			}
			count[s.Name()+" "+attrs["fencelock.name"]+" "+attrs["fencelock.result"]+attrs["fencelock.reason"]]++
			switch what := s.Name() + " " + attrs["fencelock.name"]; {
			case s.Name() == "fencelock hold", attrs["fencelock.result"] == "acquired":
				require.NotEmpty(t, attrs["fencelock.token"], what)
			default:
				require.Empty(t, attrs["fencelock.token"], what)
			}
			switch took := s.EndTime().Sub(s.StartTime()); s.Name() + " " + attrs["fencelock.name"] + " " + attrs["fencelock.result"] {
			case "fencelock acquire a timeout":
				require.Equal(t, time.Second, took)
				require.Equal(t, codes.Error, s.Status().Code)
			case "fencelock acquire a held":
				require.Equal(t, codes.Unset, s.Status().Code, "to be refused is no error")
			case "fencelock hold b ":
				require.InDelta(t, 10*time.Second, took, float64(time.Second)/10, "until it was told")
				require.Equal(t, codes.Error, s.Status().Code)
			case "fencelock hold d ":
				require.GreaterOrEqual(t, len(s.Events()), 2, "a renewal that failed, and the end")
			}
		}
		require.Equal(t, map[string]int{
			"fencelock acquire a acquired": 1, "fencelock acquire p acquired": 3, "fencelock acquire a held": 2, "fencelock acquire a timeout": 1,
			"fencelock acquire a cancelled": 1, "fencelock acquire b acquired": 1, "fencelock acquire c acquired": 1,
			"fencelock acquire d acquired": 1, "fencelock acquire e error": 1,
			"fencelock hold a ": 1, "fencelock hold p ": 3, "fencelock hold b taken-by-another": 1, "fencelock hold c deleted-at-the-server": 1,
			"fencelock hold d locker-closed": 1,
		}, count)
	})
}
