package mysql

import (
	"context"
	"slices"

	"github.com/fencelock/fencelock/internal/sqlkit"
)

// column returns the only column of the result.
func (p pool) column(ctx context.Context, text string) (all []string, err error) {
	err = sqlkit.Retry(ctx, again, func() error {
		all = nil
		rows, err := p.db.QueryContext(ctx, text)
		if err != nil {
			return failure(ctx, err)
		}
		defer rows.Close()
		for rows.Next() {
			var s string
			if err := rows.Scan(&s); err != nil {
				return err
			}
			all = append(all, s)
		}
		return failure(ctx, rows.Err())
	})
	return all, err
}

// firstWithout returns the index of the first key that is not among taken, -1
// if all are.
func firstWithout(keys []sqlkit.Key, taken []string) int {
	return slices.IndexFunc(keys, func(k sqlkit.Key) bool { return !slices.Contains(taken, k.Hex()) })
}

func (d *leases) free(ctx context.Context, keys []sqlkit.Key) (int, error) {
	taken, err := d.column(ctx, d.text(heldSQL, values{keys: keys}))
	return firstWithout(keys, taken), err
}

func (d *leases) held(_ context.Context, _ sqlkit.Key, s state) (bool, error) { return s.held(), nil }
