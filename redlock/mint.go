package redlock

import (
	"context"
	"fmt"
	"strings"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

// mint replaces the quorum's tokens by one of the source.
func (d *driver) mint(ctx context.Context, r lease.Request, g lease.Grant) (lease.Grant, error) {
	bound, cancel := context.WithDeadline(ctx, g.Since.Add(validity(g.TTL)))
	defer cancel()
	t, err := d.next(bound, strings.TrimPrefix(r.Key, d.prefix))
	switch {
	case ctx.Err() != nil:
		return g, lease.Definite(ctx.Err())
	case bound.Err() != nil:
		return g, late()
	case err != nil:
		return g, lease.Definite(fmt.Errorf("redlock: token source: %w", err))
	case t <= 0:
		return g, lease.Definite(fmt.Errorf("redlock: the token source returned %d, tokens are positive", t))
	case t <= r.Min:
		return g, lease.Unfit(fmt.Errorf("redlock: the token source returned %d, MinToken is %d: %w", t, r.Min, fencelock.ErrRegressed))
	}
	// Clocks may have stepped: if the nodes have let another in before the mint,
	// the older holder would have the greater token. A majority that still has us
	// after the mint excludes that. If it is lost, the engine tries again.
	gs, errs := []lease.Grant{g}, make([]error, 1)
	d.Renew(bound, []lease.Request{r}, gs, errs)
	switch {
	case ctx.Err() != nil:
		return g, lease.Definite(ctx.Err())
	case errs[0] != nil:
		return g, lease.Definite(fmt.Errorf("redlock: after the mint of token %d: %w", t, errs[0]))
	}
	gs[0].First, gs[0].Last = t, t
	return gs[0], nil
}

// next asks the source and returns when ctx ends, even if the source does not.
func (d *driver) next(ctx context.Context, name string) (fencelock.Token, error) {
	type answer struct {
		token fencelock.Token
		err   error
	}
	answers := make(chan answer, 1)
	d.crew.spawn(func() {
		t, err := d.source.Next(ctx, name)
		answers <- answer{t, err}
	})
	select {
	case a := <-answers:
		return a.token, a.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
