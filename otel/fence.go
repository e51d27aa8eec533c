package otel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/trace"

	"github.com/fencelock/fencelock"
)

// Fence returns f with its checks counted, and those that were refused noted on
// the span in ctx.
func (o *Observer) Fence(f fencelock.Fence) fencelock.Fence { return counted{o, f} }

type counted struct {
	o *Observer
	f fencelock.Fence
}

func (c counted) Admit(ctx context.Context, name string, t fencelock.Token) error {
	err := c.f.Admit(ctx, name, t)
	c.o.Checked(ctx, name, err)
	return err
}

// Checked counts a check made otherwise than by a Fence of [Observer.Fence]: in the
// transaction that writes, in a script, by a column. err is its result.
func (o *Observer) Checked(ctx context.Context, name string, err error) {
	result := "error"
	switch {
	case err == nil:
		result = "admitted"
	case errors.Is(err, fencelock.ErrStale):
		result = "refused"
		trace.SpanFromContext(ctx).RecordError(err)
	}
	o.checks.Add(ctx, 1, o.with(name, resultKey.String(result)))
}
