package pg_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock/internal/testlock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/pg"
)

// BenchmarkAdvisory compares NewAdvisory, by turns, with the same by hand and
// without tokens: pg_advisory_lock and pg_advisory_unlock, a session for each
// goroutine. Solo, each goroutine has a name of its own; hot, four processes of
// four goroutines want the same.
func BenchmarkAdvisory(b *testing.B) {
	server := testserver.StartPostgres(b, "fsync=on")
	migrate(b, server)
	ctx := context.Background()
	byHand := func(b *testing.B, n int, key func(g int) int64) func(int) error {
		conns := make([]*pgx.Conn, n)
		for g := range n {
			c, err := pgx.Connect(ctx, server.URL())
			require.NoError(b, err)
			b.Cleanup(func() { _ = c.Close(ctx) })
			conns[g] = c
		}
		return func(g int) error {
			if _, err := conns[g].Exec(ctx, "SELECT pg_advisory_lock($1)", key(g)); err != nil {
				return err
			}
			_, err := conns[g].Exec(ctx, "SELECT pg_advisory_unlock($1)", key(g))
			return err
		}
	}
	b.Run("solo", func(b *testing.B) {
		l := locker(b, "advisory", connect(b, server.URL()))
		testlock.Compare(b, 1, 100, "by-hand", byHand(b, 1, func(g int) int64 { return int64(g) }),
			func(int) error { return testlock.Once(ctx, l, "solo") })
	})
	b.Run("hot", func(b *testing.B) {
		const processes, goroutines = 4, 4
		var lockers [processes]*pg.Locker
		for i := range lockers {
			lockers[i] = locker(b, "advisory", connect(b, server.URL()))
		}
		testlock.Compare(b, processes*goroutines, 100, "by-hand", byHand(b, processes*goroutines, func(int) int64 { return 1 }),
			func(g int) error { return testlock.Once(ctx, lockers[g%processes], "hot") })
	})
}
