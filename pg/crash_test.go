package pg_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/pg"
)

// S2: what was handed out does not come again after a crash, and is not even
// forgotten, whatever the session's synchronous_commit. The server dies at once,
// again and again.
func TestTokensSurviveACrash(t *testing.T) {
	server := testserver.StartPostgres(t, "wal_writer_delay=10s") // what is not flushed at commit is lost
	migrate(t, server)
	rounds := 3
	if os.Getenv("FENCELOCK_TEST_SOAK") == "1" {
		rounds *= 4
	}
	last := map[string]fencelock.Token{}
	for round := range rounds {
		// A release may be lost with the crash, so a lease has another name each time.
		kinds := []string{fmt.Sprint("lease", round), "row", "optimistic"}
		pool := connect(t, server.URL(), param("synchronous_commit", "off"))
		l := open(t, pool, fencelock.TTL(time.Minute))
		row, err := pg.NewTokens(pool)
		require.NoError(t, err)
		optimistic, err := pg.NewOptimisticTokens(pool)
		require.NoError(t, err)
		next := map[string]func() (fencelock.Token, error){
			kinds[0]:     func() (fencelock.Token, error) { return cycle(t, l, kinds[0]), nil },
			"row":        func() (fencelock.Token, error) { return row.Next(long(t), "row") },
			"optimistic": func() (fencelock.Token, error) { return optimistic.Next(long(t), "optimistic") },
		}
		held := acquire(t, l, fmt.Sprint("held", round))
		for range 5 {
			for i := range kinds { // another one last in each round: it flushes what came before
				kind := kinds[(round+i)%len(kinds)]
				token, err := next[kind]()
				require.NoError(t, err)
				require.Greater(t, token, last[kind])
				last[kind] = token
			}
		}
		server.Kill()
		server.Restart()
		for name, token := range last {
			kept := server.Strings("SELECT token >= $1::bigint FROM fencelock_locks WHERE name = $2", int64(token), "fencelock/"+name)
			require.Equal(t, []string{"t"}, kept, "the counter of %q lies below a token that was handed out", name)
		}
		_, err = open(t, connect(t, server.URL())).TryAcquire(long(t), held.Name())
		require.ErrorIs(t, err, fencelock.ErrHeld, "a lease outlives the crash")
		eventually(t, func() bool { return held.Release(long(t)) == nil }, "the pool has got over it, and the lock is released")
	}
}

// A lagging standby takes over: the counter is lost, the tokens still rise.
func TestTokensRiseThroughAFailover(t *testing.T) {
	pair := testserver.PostgresPair(t)
	migrate(t, pair.Primary)
	l := open(t, connect(t, pair.Primary.URL()))
	cycle(t, l, "known")
	pair.WaitSynced()
	pair.Link.Cut()
	var known, unknown fencelock.Token
	for range 5 {
		known, unknown = cycle(t, l, "known"), cycle(t, l, "unknown")
	}
	held := acquire(t, l, "held")
	pair.Promote()
	next := open(t, connect(t, pair.Standby.URL()))
	require.Greater(t, cycle(t, next, "known"), known)
	require.Greater(t, cycle(t, next, "unknown"), unknown)
	require.Greater(t, cycle(t, next, "held"), held.Token(), "two holders, and the fence knows the later")
}
