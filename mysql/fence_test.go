package mysql_test

import (
	"context"
	"database/sql"
	"math"
	"testing"

	driver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/locktest"
	"github.com/fencelock/fencelock/mysql"
)

// fences admits each time in a transaction of its own.
type fences struct {
	db    *sql.DB
	level sql.IsolationLevel
}

func (f fences) Admit(ctx context.Context, name string, t fencelock.Token) error {
	return admit(ctx, f.db, f.level, name, t)
}

func admit(ctx context.Context, db *sql.DB, level sql.IsolationLevel, name string, t fencelock.Token) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	fence, err := mysql.NewFence(tx)
	if err != nil {
		return err
	}
	if err := fence.Admit(ctx, name, t); err != nil {
		return err
	}
	return tx.Commit()
}

func TestFence(t *testing.T) {
	s := database(t)
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted} {
		for _, found := range []bool{false, true} { // S17
			db := dial(t, s.DSN(), func(c *driver.Config) { c.ClientFoundRows, c.InterpolateParams = found, found })
			locktest.RunFence(t, func(testing.TB) fencelock.Fence { return fences{db, level} })
		}
	}
}

func TestStrictWritesOncePerToken(t *testing.T) {
	db := dial(t, database(t).DSN())
	ctx := long(t)
	try := func(strict, commit bool, token fencelock.Token) error {
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		defer func() { _ = tx.Rollback() }()
		f, err := mysql.NewFence(tx)
		require.NoError(t, err)
		if strict {
			f = f.Strict()
		}
		if err := f.Admit(ctx, "n", token); err != nil || !commit {
			return err
		}
		return tx.Commit()
	}
	stale := func(err error, have, want fencelock.Token) {
		t.Helper()
		var s *fencelock.StaleError
		require.ErrorAs(t, err, &s)
		require.Equal(t, fencelock.StaleError{Name: "n", Have: have, Want: want}, *s)
	}
	require.NoError(t, try(false, true, 10), "a claim is no write")
	require.NoError(t, try(true, false, 10))
	require.NoError(t, try(true, true, 10), "what was rolled back has not written")
	stale(try(true, true, 10), 10, 11)
	stale(try(true, true, 9), 9, 10)
	require.NoError(t, try(false, true, 10), "it may still read")
	require.NoError(t, try(false, true, 20))
	stale(try(true, true, 11), 11, 20)
	require.NoError(t, try(true, true, 20))
	require.NoError(t, try(true, true, math.MaxInt64))
	stale(try(true, true, math.MaxInt64), math.MaxInt64, math.MaxInt64)

	tx, err := db.BeginTx(ctx, nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	f, err := mysql.NewFence(tx)
	require.NoError(t, err)
	require.NoError(t, f.Strict().Admit(ctx, "new", 3), "a new name")
	stale2 := f.Strict().Admit(ctx, "new", 3)
	require.ErrorIs(t, stale2, fencelock.ErrStale, "twice in one transaction")
	require.NoError(t, f.Admit(ctx, "new", 4))
}

// S22: under REPEATABLE READ a transaction that has read before Admit would
// write back what another holder has changed since.
func TestReadBeforeAdmitIsRefused(t *testing.T) {
	s := database(t)
	db := dial(t, s.DSN())
	ctx := long(t)
	s.Exec("CREATE TABLE account (id INT PRIMARY KEY, balance INT NOT NULL) ENGINE = InnoDB")
	balance := func() string { return s.Strings("SELECT balance FROM account")[0] }
	read := func(tx *sql.Tx) (n int) {
		require.NoError(t, tx.QueryRowContext(ctx, "SELECT balance FROM account WHERE id = 1").Scan(&n))
		return n
	}
	write := func(tx *sql.Tx, n int) {
		_, err := tx.ExecContext(ctx, "UPDATE account SET balance = ? WHERE id = 1", n)
		require.NoError(t, err)
	}
	admit := func(tx *sql.Tx, token fencelock.Token) error {
		f, err := mysql.NewFence(tx)
		require.NoError(t, err)
		return f.Admit(ctx, "account/1", token)
	}
	begin := func(level sql.IsolationLevel) *sql.Tx {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback() })
		return tx
	}
	for _, known := range []bool{false, true} { // whether the name has a row in the fence already
		s.Exec("TRUNCATE fencelock_fences")
		if known {
			require.NoError(t, admitOnce(ctx, db, "account/1", 10))
		}
		s.Exec("REPLACE account VALUES (1, 100)")

		// The lost update, as it is without the fence's care: both take 10 off.
		late, early := begin(sql.LevelDefault), begin(sql.LevelDefault)
		n := read(late) // the snapshot
		require.NoError(t, admit(early, 10))
		write(early, read(early)-10)
		require.NoError(t, early.Commit())
		require.Equal(t, n, read(late), "it goes on to read what was there at first")
		require.ErrorIs(t, admit(late, 20), mysql.ErrReadBefore)
		require.NoError(t, late.Rollback())

		// Admitted first, or under READ COMMITTED, both count.
		late = begin(sql.LevelDefault)
		require.NoError(t, admit(late, 20))
		write(late, read(late)-10)
		require.NoError(t, late.Commit())
		require.Equal(t, "80", balance())

		late, early = begin(sql.LevelReadCommitted), begin(sql.LevelDefault)
		read(late)
		require.NoError(t, admit(early, 20))
		write(early, read(early)-10)
		require.NoError(t, early.Commit())
		require.NoError(t, admit(late, 30))
		write(late, read(late)-10)
		require.NoError(t, late.Commit())
		require.Equal(t, "60", balance())
	}

	// A read before Admit does no harm if nobody else was admitted in between.
	tx := begin(sql.LevelDefault)
	read(tx)
	require.NoError(t, admit(tx, 40))
	require.NoError(t, admit(tx, 40), "again in the same transaction")
}

func admitOnce(ctx context.Context, db *sql.DB, name string, token fencelock.Token) error {
	return admit(ctx, db, sql.LevelDefault, name, token)
}

// One that waited for another's admission at the fence reads what that has
// written.
func TestAdmitThatWaitedReadsTheNewest(t *testing.T) {
	s := database(t)
	db := dial(t, s.DSN())
	ctx := long(t)
	s.Exec("CREATE TABLE account (id INT PRIMARY KEY, balance INT NOT NULL) ENGINE = InnoDB")
	s.Exec("INSERT INTO account VALUES (1, 100)")
	for range 3 {
		first, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		f, err := mysql.NewFence(first)
		require.NoError(t, err)
		require.NoError(t, f.Admit(ctx, "account/1", 10))
		done := make(chan error, 1)
		go func() {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				done <- err
				return
			}
			defer func() { _ = tx.Rollback() }()
			f, err := mysql.NewFence(tx)
			if err == nil {
				err = f.Admit(ctx, "account/1", 10)
			}
			var n int
			if err == nil {
				err = tx.QueryRow("SELECT balance FROM account").Scan(&n)
			}
			if err == nil {
				_, err = tx.Exec("UPDATE account SET balance = ?", n-10)
			}
			if err == nil {
				err = tx.Commit()
			}
			done <- err
		}()
		eventually(t, func() bool {
			return s.Strings("SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'")[0] == "1"
		}, "the other one waits")
		_, err = first.Exec("UPDATE account SET balance = balance - 10")
		require.NoError(t, err)
		require.NoError(t, first.Commit())
		require.NoError(t, <-done)
	}
	require.Equal(t, "40", s.Strings("SELECT balance FROM account")[0])
}

func TestStaleOrMissing(t *testing.T) {
	s := database(t)
	s.Exec("CREATE TABLE doc (id INT PRIMARY KEY, body TEXT, fence_token BIGINT) ENGINE = InnoDB")
	s.Exec("INSERT INTO doc VALUES (1, '', 50), (2, '', NULL)")
	ctx := long(t)
	tx, err := dial(t, s.DSN()).BeginTx(ctx, nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	classify := func(id int, token fencelock.Token) error {
		return mysql.StaleOrMissing(ctx, tx, "doc", token, "SELECT fence_token FROM doc WHERE id = ? FOR UPDATE", id)
	}
	var stale *fencelock.StaleError
	require.ErrorAs(t, classify(1, 49), &stale)
	require.Equal(t, fencelock.StaleError{Name: "doc", Have: 49, Want: 50}, *stale)
	require.ErrorIs(t, classify(7, 49), mysql.ErrNoRow)
	require.ErrorContains(t, classify(2, 49), "NULL")
	require.NotErrorIs(t, classify(1, 50), fencelock.ErrStale)
	require.ErrorContains(t, mysql.StaleOrMissing(ctx, nil, "doc", 1, "SELECT 1"), "nil")
}
