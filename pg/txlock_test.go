package pg_test

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/pg"
)

func locked(t *testing.T, s *testserver.Postgres, n string) {
	t.Helper()
	eventually(t, func() bool {
		return s.Strings("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")[0] == n
	}, "one waits")
}

func TestTxLockExcludes(t *testing.T) {
	server := database(t)
	pool := connect(t, server.URL())
	first := begin(t, pool)
	token, err := pg.TxLock(long(t), first, "n")
	require.NoError(t, err)

	other := begin(t, pool)
	_, err = pg.TxLock(long(t), other, "n", fencelock.Wait(0))
	require.ErrorIs(t, err, fencelock.ErrHeld)
	_, err = pg.TxLock(long(t), other, "another name", fencelock.Wait(0))
	require.NoError(t, err, "the transaction is as it was")
	_, err = pg.TxLock(long(t), other, "n", fencelock.Prefix("p/"), fencelock.Wait(0))
	require.NoError(t, err)
	_, err = pg.TxLock(long(t), first, "n")
	require.NoError(t, err, "the same transaction has it")

	next := make(chan pg.TxToken, 1)
	go func() {
		defer close(next)
		_ = pgx.BeginFunc(long(t), pool, func(tx pgx.Tx) error {
			token, err := pg.TxLock(long(t), tx, "n")
			if err == nil {
				next <- token
			}
			return err
		})
	}()
	locked(t, server, "1")
	require.NoError(t, first.Commit(long(t)))
	require.Greater(t, <-next, token)

	// The key is that of the advisory locks: the first 8 bytes of the hash.
	id := sha256.Sum256([]byte("fencelock/n"))
	raw := begin(t, pool)
	_, err = raw.Exec(long(t), "SELECT pg_advisory_xact_lock($1)", int64(binary.BigEndian.Uint64(id[:])))
	require.NoError(t, err)
	_, err = pg.TxLock(long(t), other, "n", fencelock.Wait(0))
	require.ErrorIs(t, err, fencelock.ErrHeld)
}

// S3: what a rollback undoes is no Token; the counter that it shares with locks
// does not go back for them.
func TestRolledBackTxTokenComesAgain(t *testing.T) {
	pool := connect(t, database(t).URL())
	l := open(t, pool)
	last := cycle(t, l, "n")
	for range 3 {
		tx := begin(t, pool)
		token, err := pg.TxLock(long(t), tx, "n")
		require.NoError(t, err)
		require.Greater(t, int64(token), int64(last))
		require.NoError(t, tx.Rollback(long(t)))
		next := cycle(t, l, "n")
		require.Greater(t, next, last)
		last = next
	}
}

// S12: a rollback to a savepoint would give the lock up in the middle.
func TestTxLockIsRefusedBelowASavepoint(t *testing.T) {
	server := database(t)
	pool := connect(t, server.URL())
	tx := begin(t, pool)
	nested, err := tx.Begin(long(t))
	require.NoError(t, err)
	_, err = pg.TxLock(long(t), nested, "n")
	require.ErrorContains(t, err, "outermost")
	require.NoError(t, nested.Rollback(long(t)))
	_, err = pg.TxLock(long(t), begin(t, pool), "n", fencelock.Wait(0))
	require.NoError(t, err, "nothing is left of it")
	tx = begin(t, pool)
	nested, err = tx.Begin(long(t))
	require.NoError(t, err)
	require.NoError(t, nested.Commit(long(t)))
	_, err = pg.TxLock(long(t), tx, "m")
	require.NoError(t, err, "back at the top")
}

// A transaction that could not see what was committed while it waited is not
// let on.
func TestTxLockDoesNotHideNewData(t *testing.T) {
	server := database(t)
	pool := connect(t, server.URL())
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		first := begin(t, pool)
		_, err := pg.TxLock(long(t), first, "n")
		require.NoError(t, err)
		tx := begin(t, pool, pgx.TxOptions{IsoLevel: level})
		done := make(chan error, 1)
		go func() {
			_, err := pg.TxLock(long(t), tx, "n")
			done <- err
		}()
		locked(t, server, "1")
		require.NoError(t, first.Commit(long(t)))
		if err = <-done; level == pgx.ReadCommitted {
			require.NoError(t, err)
		} else {
			var e *pgconn.PgError
			require.ErrorAs(t, err, &e, level)
			require.Equal(t, "40001", e.Code)
		}
		require.NoError(t, tx.Rollback(long(t)))
	}
}

// S10, S23: in transaction mode, with a pool that prepares statements.
func TestTxLockThroughPgBouncer(t *testing.T) {
	server := testserver.StartPostgres(t)
	migrate(t, server)
	pool := connect(t, testserver.PgBouncer(t, server, "default_pool_size=3").URL(), noCancel)
	account, workers := 0, make(chan error)
	for range 8 {
		go func() {
			workers <- func() error {
				for range 10 {
					err := pgx.BeginFunc(long(t), pool, func(tx pgx.Tx) error {
						if _, err := pg.TxLock(long(t), tx, "n"); err != nil {
							return err
						}
						account++
						f, err := pg.NewFence(tx)
						if err != nil {
							return err
						}
						return f.Admit(long(t), "n", 1)
					})
					if err != nil {
						return err
					}
				}
				return nil
			}()
		}()
	}
	for range 8 {
		require.NoError(t, <-workers)
	}
	require.Equal(t, 80, account)
	require.Empty(t, server.Strings("SELECT pid FROM pg_locks WHERE locktype = 'advisory'"))
}

func TestTxLockRefusesWhatItCannotDo(t *testing.T) {
	for _, tx := range []pgx.Tx{nil, (*pgxpool.Tx)(nil)} {
		_, err := pg.TxLock(long(t), tx, "n")
		require.ErrorContains(t, err, "nil")
	}
	tx := begin(t, connect(t, database(t).URL()))
	for _, o := range []fencelock.Option{fencelock.TTL(time.Second), fencelock.Wait(time.Second), fencelock.Passes(1), fencelock.MinToken(1)} {
		_, err := pg.TxLock(long(t), tx, "n", o)
		require.Error(t, err)
	}
	_, err := pg.TxLock(long(t), tx, "")
	require.Error(t, err)
	_, err = pg.TxLock(long(t), tx, "n")
	require.NoError(t, err, "nothing was sent")
}
