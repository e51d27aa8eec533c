package pg_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
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
	byHand := func(b *testing.B, n int, key func(g int) int64) func(string) error {
		conns := make(map[string]*pgx.Conn)
		keys := make(map[string]int64)
		for g := range n {
			c, err := pgx.Connect(ctx, server.URL())
			require.NoError(b, err)
			b.Cleanup(func() { _ = c.Close(ctx) })
			name := fmt.Sprint(b.Name(), g)
			conns[name], keys[name] = c, key(g)
		}
		return func(name string) error {
			if _, err := conns[name].Exec(ctx, "SELECT pg_advisory_lock($1)", keys[name]); err != nil {
				return err
			}
			_, err := conns[name].Exec(ctx, "SELECT pg_advisory_unlock($1)", keys[name])
			return err
		}
	}
	b.Run("solo", func(b *testing.B) {
		l := locker(b, "advisory", connect(b, server.URL()))
		compare(b, 1, byHand(b, 1, func(g int) int64 { return int64(g) }), func(name string) error { return once(ctx, l, name) })
	})
	b.Run("hot", func(b *testing.B) {
		const processes, goroutines = 4, 4
		lockers := make(chan *pg.Locker, processes*goroutines)
		for range processes {
			l := locker(b, "advisory", connect(b, server.URL()))
			for range goroutines {
				lockers <- l
			}
		}
		var mine sync.Map // by the name that compare gives each goroutine
		compare(b, processes*goroutines, byHand(b, processes*goroutines, func(int) int64 { return 1 }), func(name string) error {
			l, ok := mine.Load(name)
			if !ok {
				l, _ = mine.LoadOrStore(name, <-lockers)
			}
			return once(ctx, l.(fencelock.Locker), "hot")
		})
	})
}
