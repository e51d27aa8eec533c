package pg_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
)

// S10
func TestSessionStylesRefuseTransactionPooling(t *testing.T) {
	db := database(t)
	for _, size := range []string{"default_pool_size=1", "default_pool_size=20"} {
		bouncer := testserver.PgBouncer(t, db, size)
		eachStyle(t, func(t *testing.T, style string) {
			l := locker(t, style, connect(t, bouncer.URL()))
			for range 3 {
				_, err := l.Acquire(long(t), "a")
				require.ErrorContains(t, err, "use NewLease or TxLock")
				require.NotErrorIs(t, err, fencelock.ErrHeld)
			}
		})
		// A session of the server's that others get must not have our settings.
		c := connect(t, bouncer.URL())
		var timeout string
		require.NoError(t, c.QueryRow(long(t), "SHOW idle_session_timeout").Scan(&timeout))
		require.Equal(t, "0", timeout)
	}
}

func TestSessionStylesWorkWithSessionPooling(t *testing.T) {
	db := database(t)
	bouncer := testserver.PgBouncer(t, db, "pool_mode=session", "default_pool_size=50")
	eachStyle(t, func(t *testing.T, style string) {
		l, other := locker(t, style, connect(t, bouncer.URL())), locker(t, style, connect(t, db.URL()))
		lock := acquire(t, l, "a")
		_, err := other.TryAcquire(long(t), "a")
		require.ErrorIs(t, err, fencelock.ErrHeld)
		release(t, lock)
		lock = acquire(t, l, "b")
		terminate(t, db, style, "fencelock/b")
		lost(t, lock, 10*time.Second)
		cycle(t, other, "b")
	})
}
