package mysql

import (
	"context"
	"slices"

	"github.com/fencelock/fencelock/internal/sqlkit"
)

// column returns the only column of the result.
func (p pool) column(ctx context.Context, text string) (all []string, err error) {
	err = sqlkit.Retry(ctx, again, func() error {
		all, err = column(ctx, p.db, text)
		return err
	})
	return all, err
}

func column(ctx context.Context, q querier, text string) (all []string, err error) {
	rows, err := q.QueryContext(ctx, text)
	if err != nil {
		return nil, failure(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, failure(ctx, rows.Err())
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

// without returns those of all that are not among some.
func without(all, some []string) []string {
	return slices.DeleteFunc(all, func(s string) bool { return slices.Contains(some, s) })
}

func (d *sessions) free(ctx context.Context, keys []sqlkit.Key) (int, error) {
	return d.scan(ctx, d, keys)
}
