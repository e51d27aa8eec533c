package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/sqlkit"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/mysql"
)

// ended is what "within a second" becomes on a busy machine.
const ended = 10 * time.Second

var sessionStyles = map[string]constructor{"advisory": mysql.NewAdvisory, "row": mysql.NewRow}

// watched is a server on which it can be seen who holds what.
func watched(t testing.TB) *testserver.MariaDB {
	t.Helper()
	s := testserver.StartMariaDB(t, "--plugin-load-add=metadata_lock_info", "--innodb-status-output-locks=ON")
	migrate(t, s)
	return s
}

// S7: a holder whose session is killed is told, and nothing reconnects on its
// behalf.
func TestKilledSessionIsTold(t *testing.T) {
	s := watched(t)
	for style, make := range sessionStyles {
		db := dial(t, s.DSN())
		l, other := open(t, make, db), open(t, make, db)
		locks := []fencelock.Lock{acquire(t, l, "a"), acquire(t, l, "b")}
		kill(t, s, holderOf(t, s, style, "a"))
		start := time.Now()
		require.Equal(t, fencelock.SessionGone, lost(t, locks[0], ended).Reason)
		t.Logf("%s: told after %v", style, time.Since(start))
		require.NoError(t, locks[1].Err(), "only one session was killed")
		next, err := other.TryAcquire(long(t), "a")
		require.NoError(t, err)
		require.Greater(t, next.Token(), locks[0].Token())
		require.ErrorIs(t, locks[0].Release(long(t)), fencelock.ErrLost)
		require.NoError(t, next.Err())
		release(t, next)
		release(t, locks[1])
	}
}

// S7: so is one whose server is killed.
func TestKilledServerIsTold(t *testing.T) {
	for style, make := range sessionStyles {
		s := watched(t)
		l := open(t, make, dial(t, s.DSN()))
		lock := acquire(t, l, "n")
		s.Kill()
		start := time.Now()
		require.Equal(t, fencelock.SessionGone, lost(t, lock, ended).Reason)
		t.Logf("%s: told after %v", style, time.Since(start))
		s.Restart()
		require.Greater(t, cycle(t, l, "n"), lock.Token())
	}
}

// S7: the server ends a session that is silent for the TTL.
func TestSilentSessionIsEndedByTheServer(t *testing.T) {
	s := watched(t)
	for style, make := range sessionStyles {
		p := testserver.NewProxy(t, s.Addr())
		far := open(t, make, dial(t, s.Via(p.Addr())), fencelock.TTL(2*time.Second))
		near := open(t, make, dial(t, s.DSN()))
		lock := acquire(t, far, style)
		p.Drop(testserver.Both)
		got := acquire(t, near, style)
		require.Error(t, lock.Err(), "told before the next one has it")
		require.Greater(t, got.Token(), lock.Token())
		release(t, got)
		p.Heal()
	}
}

// S15: what GET_LOCK says when its query is killed is no grant and no refusal.
func TestKilledQueryIsAskedAgain(t *testing.T) {
	s := watched(t)
	for style, make := range sessionStyles {
		db := dial(t, s.DSN())
		holder, waiter := open(t, make, db), open(t, make, db)
		lock := acquire(t, holder, "n")
		got := waitFor(long(t), waiter, "n")
		for range 3 {
			kill := waitingThread(t, s)
			s.Exec("KILL QUERY " + kill)
			eventually(t, func() bool { return waitingThread(t, s) != "" }, "it waits again")
		}
		select {
		case r := <-got:
			t.Fatalf("%s: the waiter has %v, %v while another holds the lock", style, r.lock, r.err)
		default:
		}
		release(t, lock)
		r := <-got
		require.NoError(t, r.err)
		require.Greater(t, r.lock.Token(), lock.Token())
		release(t, r.lock)
	}
}

type result struct {
	lock fencelock.Lock
	err  error
}

// waitingThread returns the thread that waits in the server for a lock.
func waitingThread(t testing.TB, s *testserver.MariaDB) (thread string) {
	t.Helper()
	eventually(t, func() bool {
		found := s.Strings(`SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND = 'Query' AND ID <> CONNECTION_ID()
 AND (INFO LIKE 'SELECT GET_LOCK(%, 30)' OR INFO LIKE 'SELECT 1 FROM %FOR UPDATE')`)
		if len(found) > 0 {
			thread = found[0]
		}
		return len(found) > 0
	}, "somebody waits")
	return thread
}

// S16: a cancelled waiter does not get the lock later.
func TestCancelledWaiterLeavesTheQueue(t *testing.T) {
	s := watched(t)
	for style, make := range sessionStyles {
		db := dial(t, s.DSN())
		holder, waiter, third := open(t, make, db), open(t, make, db), open(t, make, db)
		for range 3 {
			lock := acquire(t, holder, "n")
			ctx, cancel := context.WithCancel(long(t))
			got := waitFor(ctx, waiter, "n")
			waitingThread(t, s)
			cancel()
			require.ErrorIs(t, (<-got).err, context.Canceled)
			release(t, lock)
			start := time.Now()
			next := acquire(t, third, "n")
			require.Less(t, time.Since(start), 2*ended, style)
			t.Logf("%s: the third had it after %v", style, time.Since(start))
			release(t, next)
		}
	}
}

func waitFor(ctx context.Context, l fencelock.Locker, name string) <-chan result {
	got := make(chan result, 1)
	go func() {
		lock, err := l.Acquire(ctx, name)
		got <- result{lock, err}
	}()
	return got
}

// S21: a session that ends between its lock and its token is not granted what it
// has minted.
func TestNoGrantToADeadSession(t *testing.T) {
	s := watched(t)
	db := dial(t, s.DSN())
	first, second := open(t, mysql.NewRow, db), open(t, mysql.NewRow, db)
	cycle(t, open(t, mysql.NewRow, db), "n")
	tx, err := db.BeginTx(long(t), nil) // mints have to wait
	require.NoError(t, err)
	_, err = tx.Exec("SELECT 1 FROM fencelock_locks WHERE lock_key = " + keyOf("n") + " FOR UPDATE")
	require.NoError(t, err)
	minting := func(n int) {
		eventually(t, func() bool {
			return s.Strings("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND = 'Query' AND INFO LIKE 'UPDATE `fencelock_locks`%'")[0] == fmt.Sprint(n)
		}, "the token is waited for")
	}
	dead := waitFor(long(t), first, "n")
	minting(1)
	kill(t, s, holderOf(t, s, "row", "n"))
	next := waitFor(long(t), second, "n")
	minting(2)
	require.NoError(t, tx.Rollback())
	a, b := <-dead, <-next
	require.NoError(t, b.err)
	if a.err == nil {
		t.Fatalf("the dead session was granted %d, the next one %d", a.lock.Token(), b.lock.Token())
	}
	release(t, b.lock)
}

// S8, S9: a session's connection is not the pool's any more: neither does its
// lifetime end a hold, nor does it come back with a lock or our settings.
func TestConnectionsDoNotComeBack(t *testing.T) {
	s := watched(t)
	for _, make := range sessionStyles {
		db := dial(t, s.DSN())
		db.SetConnMaxLifetime(500 * time.Millisecond)
		db.SetMaxOpenConns(8)
		l, err := make(db, fencelock.TTL(2*time.Second))
		require.NoError(t, err)
		locks := []fencelock.Lock{acquire(t, l, "a"), acquire(t, l, "b"), acquire(t, l, "c")}
		select {
		case <-locks[0].Lost():
			t.Fatal(locks[0].Err())
		case <-time.After(1500 * time.Millisecond):
		}
		db.SetConnMaxLifetime(0) // or it would hide what comes back
		for _, lock := range locks {
			require.NoError(t, lock.Err())
			release(t, lock)
		}
		require.NoError(t, l.Close(long(t)))
		require.Zero(t, db.Stats().InUse)
		var conns []*sql.Conn
		for range 8 {
			c, err := db.Conn(long(t))
			require.NoError(t, err)
			conns = append(conns, c)
			var timeout, level string
			require.NoError(t, c.QueryRowContext(long(t), "SELECT @@wait_timeout, @@tx_isolation").Scan(&timeout, &level))
			require.Equal(t, "28800", timeout)
			require.Equal(t, "REPEATABLE-READ", level)
		}
		for _, c := range conns {
			require.NoError(t, c.Close())
		}
		require.Empty(t, s.Strings("SELECT TABLE_SCHEMA FROM information_schema.METADATA_LOCK_INFO WHERE LOCK_TYPE = 'User lock'"))
	}
}

// S11: sessions leave a connection of the pool for what each of them needs for
// a moment.
func TestSmallPoolDoesNotLockUp(t *testing.T) {
	s := database(t)
	for style, make := range styles {
		db := dial(t, s.DSN())
		db.SetMaxOpenConns(3)
		l := open(t, make, db)
		var all sync.WaitGroup
		for g := range 12 {
			all.Go(func() {
				for i := range 3 {
					lock, err := l.Acquire(long(t), fmt.Sprint(style, g, i))
					if err == nil {
						err = lock.Release(long(t))
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
}

// The server is told the TTL in whole seconds.
func TestTheServerIsToldTheTTL(t *testing.T) {
	s := watched(t)
	for style, make := range sessionStyles {
		l := open(t, make, dial(t, s.DSN()), fencelock.TTL(2500*time.Millisecond))
		lock := acquire(t, l, style)
		require.LessOrEqual(t, lock.Valid(), 2500*time.Millisecond)
		_, err := l.Acquire(long(t), "other", fencelock.TTL(time.Minute))
		require.ErrorContains(t, err, "New only")
		release(t, lock)
	}
}

func TestTxLock(t *testing.T) {
	s := testserver.StartMariaDB(t, "--innodb-lock-wait-timeout=1")
	migrate(t, s)
	db := dial(t, s.DSN())
	begin := func() *sql.Tx {
		tx, err := db.BeginTx(long(t), nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback() })
		return tx
	}
	lock := func(tx *sql.Tx) mysql.TxToken {
		token, err := mysql.TxLock(long(t), tx, "n")
		require.NoError(t, err)
		return token
	}
	tx := begin()
	a := lock(tx)
	require.NoError(t, tx.Commit())
	tx = begin()
	b := lock(tx)
	require.Greater(t, b, a)
	require.NoError(t, tx.Rollback())

	// It waits, for longer than the server lets a statement wait.
	first := begin()
	c := lock(first)
	got := make(chan mysql.TxToken, 1)
	second := begin()
	go func() {
		token, err := mysql.TxLock(long(t), second, "n")
		if err != nil {
			t.Error(err)
		}
		got <- token
	}()
	select {
	case <-got:
		t.Fatal("two transactions have the lock")
	case <-time.After(1500 * time.Millisecond):
	}
	require.NoError(t, first.Commit())
	require.Greater(t, <-got, c)

	// Against NewRow, both ways.
	l := open(t, mysql.NewRow, db)
	_, err := l.TryAcquire(long(t), "n")
	require.ErrorIs(t, err, fencelock.ErrHeld)
	require.NoError(t, second.Commit())
	held := acquire(t, l, "n")
	require.Greater(t, int64(held.Token()), int64(c))
	ctx, cancel := context.WithTimeout(long(t), 300*time.Millisecond)
	defer cancel()
	late := begin()
	_, err = mysql.TxLock(ctx, late, "n")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	release(t, held)
	tx = begin()
	require.Greater(t, int64(lock(tx)), int64(held.Token()))
	require.NoError(t, tx.Commit())
	_, err = mysql.TxLock(long(t), begin(), "")
	require.Error(t, err)
	require.Len(t, s.Strings("SELECT 1 FROM fencelock_rows WHERE lock_key = x'"+sqlkit.KeyOf("fencelock/n").Hex()+"'"), 1)
}

// A server that rolls the whole transaction back would leave the caller without
// lock and transaction.
func TestTxLockIsNotTriedAgainWhereTheTransactionIsGone(t *testing.T) {
	s := testserver.StartMariaDB(t, "--innodb-lock-wait-timeout=1", "--innodb-rollback-on-timeout=ON")
	migrate(t, s)
	db := dial(t, s.DSN())
	first, err := db.BeginTx(long(t), nil)
	require.NoError(t, err)
	_, err = mysql.TxLock(long(t), first, "n")
	require.NoError(t, err)
	second, err := db.BeginTx(long(t), nil)
	require.NoError(t, err)
	_, err = mysql.TxLock(long(t), second, "n")
	require.ErrorContains(t, err, "1205")
	require.NoError(t, first.Rollback())
	_ = second.Rollback()
}

// A waiter that has left does not get the lock, though the server believes that
// its connection is still there.
func TestSessionsAreEndedAtTheServer(t *testing.T) {
	s := watched(t)
	var mu sync.Mutex
	var conns []net.Conn
	driver.RegisterDialContext("deaf", func(ctx context.Context, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		conns = append(conns, c)
		return deaf{c}, nil
	})
	t.Cleanup(func() {
		driver.DeregisterDialContext("deaf")
		for _, c := range conns {
			_ = c.Close()
		}
	})
	for style, make := range sessionStyles {
		db := dial(t, s.DSN())
		holder, third := open(t, make, db), open(t, make, db)
		waiter := open(t, make, dial(t, s.DSN(), func(c *driver.Config) { c.Net, c.CheckConnLiveness = "deaf", false }))
		lock := acquire(t, holder, style)
		ctx, cancel := context.WithCancel(long(t))
		got := waitFor(ctx, waiter, style)
		waitingThread(t, s)
		cancel()
		require.ErrorIs(t, (<-got).err, context.Canceled)
		release(t, lock)
		release(t, acquire(t, third, style))
	}
}

// deaf is a connection whose end is not told to the other side.
type deaf struct{ net.Conn }

func (d deaf) Close() error { return d.SetDeadline(time.Now()) }
