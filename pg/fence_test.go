package pg_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/pg"
)

func newFence(t *testing.T, tx pgx.Tx, opts ...fencelock.Option) *pg.Fence {
	t.Helper()
	f, err := pg.NewFence(tx, opts...)
	require.NoError(t, err)
	return f
}

// admits runs one Admit in a transaction of its own.
func admits(t *testing.T, pool *pgxpool.Pool, token fencelock.Token, strict bool) error {
	return pgx.BeginFunc(long(t), pool, func(tx pgx.Tx) error {
		f := newFence(t, tx)
		if strict {
			f = f.Strict()
		}
		return f.Admit(long(t), "n", token)
	})
}

func TestStrictFenceAdmitsATokenOnce(t *testing.T) {
	pool := connect(t, database(t).URL())
	wants := func(err error, want fencelock.Token) {
		t.Helper()
		var stale *fencelock.StaleError
		require.ErrorAs(t, err, &stale)
		require.Equal(t, want, stale.Want)
	}
	require.NoError(t, admits(t, pool, 5, false)) // a claim is no write
	require.NoError(t, admits(t, pool, 5, true))
	wants(admits(t, pool, 5, true), 6)
	require.NoError(t, admits(t, pool, 5, false), "it may still read")
	require.NoError(t, admits(t, pool, 8, false))
	wants(admits(t, pool, 7, true), 8)
	require.NoError(t, admits(t, pool, 8, true), "a token that was claimed before its write")
	wants(admits(t, pool, 8, true), 9)
	wants(admits(t, pool, 7, false), 8)
}

// The claim stands and falls with the transaction, and who comes later waits
// for it.
func TestAdmitLastsUntilTheTransactionEnds(t *testing.T) {
	server := database(t)
	pool := connect(t, server.URL())
	require.NoError(t, admits(t, pool, 5, false))
	for _, commit := range []bool{false, true} {
		tx := begin(t, pool)
		require.NoError(t, newFence(t, tx).Admit(long(t), "n", 10))
		later := make(chan error, 1)
		go func() { later <- admits(t, pool, 7, false) }()
		eventually(t, func() bool {
			return server.Strings("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")[0] == "1"
		}, "the other waits")
		if commit {
			require.NoError(t, tx.Commit(long(t)))
			require.ErrorIs(t, <-later, fencelock.ErrStale)
		} else {
			require.NoError(t, tx.Rollback(long(t)))
			require.NoError(t, <-later)
		}
	}
}

func TestFenceIsRefusedBelowASavepoint(t *testing.T) {
	pool := connect(t, database(t).URL())
	tx := begin(t, pool)
	nested, err := tx.Begin(long(t))
	require.NoError(t, err)
	require.ErrorContains(t, newFence(t, nested).Admit(long(t), "n", 5), "outermost")
	require.NoError(t, nested.Rollback(long(t)))
	require.ErrorContains(t, newFence(t, tx).Admit(long(t), "n", 5), "outermost", "pgx leaves the savepoint")
	_, err = tx.Exec(long(t), "ROLLBACK TO sp_1; RELEASE sp_1")
	require.NoError(t, err)
	require.NoError(t, newFence(t, tx).Admit(long(t), "n", 5))
	_, err = tx.Exec(long(t), "SAVEPOINT by_hand")
	require.NoError(t, err)
	require.ErrorContains(t, newFence(t, tx).Admit(long(t), "m", 5), "outermost", "nor one made by hand")
	_, err = tx.Exec(long(t), "ROLLBACK TO by_hand; RELEASE by_hand")
	require.NoError(t, err)
	require.NoError(t, newFence(t, tx).Admit(long(t), "n", 6))
	require.NoError(t, tx.Commit(long(t)))
	require.ErrorIs(t, admits(t, pool, 5, false), fencelock.ErrStale)
}

// S22: whoever read before somebody else's write is not admitted to write over
// it.
func TestAdmitAfterAStaleRead(t *testing.T) {
	server := database(t)
	pool := connect(t, server.URL())
	_, err := pool.Exec(long(t), "CREATE TABLE account (balance int); INSERT INTO account VALUES (100)", pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	require.NoError(t, admits(t, pool, 5, false))
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		tx := begin(t, pool, pgx.TxOptions{IsoLevel: level})
		var balance int
		require.NoError(t, tx.QueryRow(long(t), "SELECT balance FROM account").Scan(&balance))
		require.NoError(t, pgx.BeginFunc(long(t), pool, func(other pgx.Tx) error {
			if err := newFence(t, other).Admit(long(t), "n", 5); err != nil {
				return err
			}
			_, err := other.Exec(long(t), "UPDATE account SET balance = balance + 10")
			return err
		}))
		err := newFence(t, tx).Admit(long(t), "n", 6)
		var e *pgconn.PgError
		require.ErrorAs(t, err, &e)
		require.Equal(t, "40001", e.Code)
		require.NoError(t, tx.Rollback(long(t)))

		tx = begin(t, pool, pgx.TxOptions{IsoLevel: level}) // Admit first
		require.NoError(t, newFence(t, tx).Admit(long(t), "n", 6))
		var now int
		require.NoError(t, tx.QueryRow(long(t), "SELECT balance FROM account").Scan(&now))
		require.Equal(t, balance+10, now)
		require.NoError(t, tx.Rollback(long(t)))
	}
}

func TestStaleOrMissing(t *testing.T) {
	pool := connect(t, database(t).URL())
	ctx := long(t)
	_, err := pool.Exec(ctx, `CREATE TABLE item (id int PRIMARY KEY, fence_token bigint, open bool);
		INSERT INTO item VALUES (1, 10, true), (2, 0, false), (3, NULL, true)`, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	tx := begin(t, pool)
	why := func(id int, token fencelock.Token) error {
		tag, err := tx.Exec(ctx, "UPDATE item SET fence_token = $1 WHERE id = $2 AND open AND fence_token <= $1", int64(token), id)
		require.NoError(t, err)
		if tag.RowsAffected() == 1 {
			return nil
		}
		return pg.StaleOrMissing(ctx, tx, "item", token, "SELECT fence_token FROM item WHERE id = $1", id)
	}
	require.NoError(t, why(1, 10))
	var stale *fencelock.StaleError
	require.ErrorAs(t, why(1, 9), &stale)
	require.Equal(t, fencelock.StaleError{Name: "item", Have: 9, Want: 10}, *stale)
	require.ErrorIs(t, why(4, 9), pg.ErrNoRow)
	require.ErrorContains(t, why(2, 9), "another part")
	require.ErrorContains(t, why(3, 9), "NOT NULL")
	require.ErrorContains(t, pg.StaleOrMissing(ctx, nil, "item", 9, "SELECT 1"), "nil")
	require.Error(t, pg.StaleOrMissing(ctx, tx, "item", 9, "SELECT nonsense"))
}

func TestFenceNeedsATransaction(t *testing.T) {
	for _, tx := range []pgx.Tx{nil, (*pgxpool.Tx)(nil)} {
		_, err := pg.NewFence(tx)
		require.ErrorContains(t, err, "nil")
	}
	pool := connect(t, database(t).URL())
	tx := begin(t, pool)
	for _, o := range []fencelock.Option{fencelock.TTL(1e9), fencelock.Wait(0), pg.Schema(""), pg.TablePrefix("a\x00"), nil} {
		_, err := pg.NewFence(tx, o)
		require.Error(t, err)
	}
	a, b := newFence(t, tx, fencelock.Prefix("a/")), newFence(t, tx, fencelock.Prefix("b/"))
	require.NoError(t, a.Admit(long(t), "n", 9))
	require.NoError(t, b.Admit(long(t), "n", 5))
	require.Error(t, a.Admit(long(t), "", 9))
	require.NoError(t, tx.Rollback(context.Background()))
}
