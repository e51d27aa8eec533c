package sqlkit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

// Any locks one of names, whichever is free. free says which of some names is
// the first that is free just now, -1 if none is; try is TryAcquire. What is
// taken between the two is not asked for again, so there are at most len(names)
// rounds. If none is free, the error matches ErrHeld.
func Any(
	ctx context.Context, names []string,
	free func(ctx context.Context, names []string) (int, error),
	try func(ctx context.Context, name string) (fencelock.Lock, error),
) (fencelock.Lock, error) {
	if len(names) == 0 {
		return nil, errors.New("fencelock: TryAny: no names are given")
	}
	for _, name := range names {
		if err := lease.CheckName(name); err != nil {
			return nil, err
		}
	}
	left := slices.Clone(names)
	// Another order for each caller, else all of them would fight for the first.
	rand.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
	for len(left) > 0 {
		i, err := free(ctx, left)
		if err != nil {
			return nil, fmt.Errorf("fencelock: try any of %d names: %w", len(names), err)
		}
		if i < 0 {
			break
		}
		lock, err := try(ctx, left[i])
		if err == nil || !errors.Is(err, fencelock.ErrHeld) {
			return lock, err
		}
		left = left[i+1:] // those before it were taken
	}
	return nil, fmt.Errorf("fencelock: none of %d names is free: %w", len(names), &fencelock.HeldError{Name: names[0]})
}
