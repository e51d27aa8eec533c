package pg_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock/internal/testlock"
	"github.com/fencelock/fencelock/internal/testserver"
)

// The floor is what a lease without token, tombstone or wake-up costs: one
// upsert and one update, by hand.
func floor(ctx context.Context, pool *pgxpool.Pool, key string) error {
	var id [16]byte
	rand.Read(id[:])
	owner := hex.EncodeToString(id[:])
	for _, q := range []struct {
		sql  string
		args []any
	}{
		{`INSERT INTO plain AS p (key, owner, expires_at) VALUES ($1, $2, now() + interval '30 s') ON CONFLICT (key)
			DO UPDATE SET owner = $2, expires_at = clock_timestamp() + interval '30 s' WHERE p.expires_at < clock_timestamp()`, []any{key, owner}},
		{`UPDATE plain SET expires_at = '-infinity' WHERE key = $1 AND owner = $2`, []any{key, owner}},
	} {
		tag, err := pool.Exec(ctx, q.sql, q.args...)
		if err == nil && tag.RowsAffected() != 1 {
			err = fmt.Errorf("%d rows", tag.RowsAffected())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkLease compares the lease with the floor, by turns, so that what else
// the machine does falls on both. It wants a server that syncs, as users have.
func BenchmarkLease(b *testing.B) {
	server := testserver.StartPostgres(b, "fsync=on")
	migrate(b, server)
	pool := connect(b, server.URL())
	ctx, cancel := context.WithCancel(context.Background()) // as a request's
	defer cancel()
	if _, err := pool.Exec(ctx, `CREATE TABLE plain (key text PRIMARY KEY, owner text, expires_at timestamptz) WITH (fillfactor = 50)`); err != nil {
		b.Fatal(err)
	}
	l := open(b, pool)
	for _, goroutines := range []int{1, 8} {
		b.Run(strconv.Itoa(goroutines), func(b *testing.B) {
			testlock.Compare(b, goroutines, 100, "floor",
				func(g int) error { return floor(ctx, pool, fmt.Sprint(g)) },
				func(g int) error { return testlock.Once(ctx, l, fmt.Sprint(g)) })
		})
	}
}

// BenchmarkStyles reports what an uncontended acquire and release cost in each
// style: round trips, commits that are flushed, and time.
func BenchmarkStyles(b *testing.B) {
	server := testserver.StartPostgres(b, "fsync=on")
	migrate(b, server)
	for style, newLocker := range styles {
		b.Run(style, func(b *testing.B) {
			var trips atomic.Int64
			l, err := newLocker(connect(b, server.URL(), traced(&trips)))
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close(context.Background()) //nolint:errcheck // the server goes as well
			ctx := context.Background()
			if err := testlock.Once(ctx, l, style); err != nil {
				b.Fatal(err)
			}
			before, commits := trips.Load(), flushes(server)
			b.ResetTimer()
			for range b.N {
				if err := testlock.Once(ctx, l, style); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(trips.Load()-before)/float64(b.N), "statements/op")
			b.ReportMetric(float64(flushes(server)-commits)/float64(b.N), "commits/op")
		})
	}
}

// flushes counts the commit records in the server's log so far: what a commit
// costs is to flush one.
func flushes(server *testserver.Postgres) int64 {
	n, _ := strconv.ParseInt(server.Strings("SELECT txid_current()")[0], 10, 64)
	return n
}
