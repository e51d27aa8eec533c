package pg_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/pg"
)

func TestNewRefusesWhatCannotWork(t *testing.T) {
	server := database(t)
	pool := connect(t, server.URL())
	one := connect(t, server.URL(), func(c *pgxpool.Config) { c.MaxConns = 1 })
	for style, open := range styles {
		_, err := open(nil)
		require.ErrorContains(t, err, "nil", style)
		_, err = open(one)
		require.ErrorContains(t, err, "MaxConns", style)
		for _, o := range []fencelock.Option{
			pg.Schema(""), pg.Schema(strings.Repeat("x", 64)), pg.Schema("a\x00b"), pg.Schema("\xff"),
			pg.TablePrefix(strings.Repeat("x", 60)), pg.TablePrefix("\x00"), fencelock.TTL(time.Millisecond), fencelock.MinToken(1), nil,
		} {
			_, err = open(pool, o)
			require.Error(t, err, style)
		}
	}
	_, err := pg.NewTokens(nil)
	require.ErrorContains(t, err, "nil")
	_, err = pg.NewOptimisticTokens(pool, fencelock.TTL(time.Second))
	require.ErrorContains(t, err, "TTL")
	_, err = pg.NewTokens(one)
	require.NoError(t, err)
	require.ErrorContains(t, pg.Migrate(long(t), nil), "nil")
	require.ErrorContains(t, pg.Migrate(long(t), pool, fencelock.Prefix("p")), "Prefix")
	_, err = pg.Prune(long(t), nil)
	require.ErrorContains(t, err, "nil")
	_, err = pg.DDL(pg.Schema(""))
	require.Error(t, err)
}

// Whoever forgot the tables, or connects to a standby, is told what to do.
func TestErrorsSayWhatToDo(t *testing.T) {
	bare := testserver.SharedPostgres(t).NewDatabase(t)
	full := database(t)
	for advice, pool := range map[string]*pgxpool.Pool{
		"pg/schema.sql": connect(t, bare.URL()),
		"primary":       connect(t, full.URL(), param("default_transaction_read_only", "on")),
	} {
		l := open(t, pool)
		_, err := l.Acquire(long(t), "n")
		require.ErrorContains(t, err, advice)
		require.NotErrorIs(t, err, fencelock.ErrHeld)
		_, err = l.TryAny(long(t), "n", "m")
		require.ErrorContains(t, err, advice)
		tokens, err := pg.NewTokens(pool)
		require.NoError(t, err)
		_, err = tokens.Next(long(t), "n")
		require.ErrorContains(t, err, advice)
		_, err = pg.Prune(long(t), pool)
		require.ErrorContains(t, err, advice)
		tx := begin(t, pool)
		require.ErrorContains(t, newFence(t, tx).Admit(long(t), "n", 1), advice)
		require.NoError(t, tx.Rollback(long(t)))
		_, err = pg.TxLock(long(t), begin(t, pool), "n")
		require.ErrorContains(t, err, advice)
	}
	_, err := open(t, connect(t, bare.URL())).Status(long(t), "n")
	require.ErrorContains(t, err, "pg.Migrate")
	require.ErrorContains(t, pg.Migrate(long(t), connect(t, bare.URL()), pg.Schema("nowhere")), "create the schema")
}

// Names that need quotes, in a schema off the search path.
func TestOtherNamesOfTheTables(t *testing.T) {
	server := testserver.SharedPostgres(t).NewDatabase(t)
	pool := connect(t, server.URL())
	_, err := pool.Exec(long(t), `CREATE SCHEMA "My ""odd"" schema; DROP"`)
	require.NoError(t, err)
	opts := []fencelock.Option{pg.Schema(`My "odd" schema; DROP`), pg.TablePrefix(`Pre-$1"ä_`)}
	require.NoError(t, pg.Migrate(long(t), pool, opts...))
	require.Equal(t, []string{`Pre-$1"ä_fences`, `Pre-$1"ä_locks`, `Pre-$1"ä_rows`},
		server.Strings(`SELECT table_name FROM information_schema.tables WHERE table_schema = 'My "odd" schema; DROP' ORDER BY 1`))
	l := open(t, pool, append(opts, fencelock.TTL(2*time.Second))...)
	lock := acquire(t, l, "n")
	other := open(t, pool, opts...)
	_, err = other.TryAcquire(long(t), "n")
	require.ErrorIs(t, err, fencelock.ErrHeld)
	select {
	case <-lock.Lost():
		t.Fatal(lock.Err())
	case <-time.After(3 * time.Second):
	}
	release(t, lock)
	got, err := l.TryAny(long(t), "n")
	require.NoError(t, err)
	tx := begin(t, pool)
	require.NoError(t, newFence(t, tx, opts...).Admit(long(t), "n", got.Token()))
	require.ErrorIs(t, newFence(t, tx, opts...).Admit(long(t), "n", lock.Token()), fencelock.ErrStale)
	_, err = pg.TxLock(long(t), tx, "m", opts...)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(long(t)))
	n, err := pg.Prune(long(t), pool, opts...)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Empty(t, server.Strings("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"), "and nothing elsewhere")
}

func TestMigrateAllAtOnce(t *testing.T) {
	server := testserver.SharedPostgres(t).NewDatabase(t)
	var all sync.WaitGroup
	for range 8 {
		pool := connect(t, server.URL(), func(c *pgxpool.Config) { c.MaxConns = 2 })
		all.Go(func() {
			if err := pg.Migrate(long(t), pool); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	// Who may use the tables may call it, too, without the right to create any.
	server.Exec("CREATE ROLE user_of_tables_" + fmt.Sprint(os.Getpid()) + " LOGIN")
	t.Cleanup(func() { server.Exec("DROP ROLE user_of_tables_" + fmt.Sprint(os.Getpid())) })
	mere := connect(t, server.URL(), func(c *pgxpool.Config) { c.ConnConfig.User = "user_of_tables_" + fmt.Sprint(os.Getpid()) })
	require.NoError(t, pg.Migrate(long(t), mere))
	mere.Close()
}

func TestDDLIsTheSchemaFile(t *testing.T) {
	text, err := os.ReadFile("schema.sql")
	require.NoError(t, err)
	ddl, err := pg.DDL()
	require.NoError(t, err)
	server := testserver.SharedPostgres(t).NewDatabase(t)
	_, err = connect(t, server.URL()).Exec(long(t), string(text), pgx.QueryExecModeSimpleProtocol) // as people would
	require.NoError(t, err)
	cycle(t, open(t, connect(t, server.URL())), "n")
	require.Equal(t, strings.ReplaceAll(string(text), "fencelock_", `"fencelock_`), strings.NewReplacer(
		`_locks"`, "_locks", `_rows"`, "_rows", `_fences"`, "_fences").Replace(ddl))
	ddl, err = pg.DDL(pg.Schema("s"), pg.TablePrefix("p_"))
	require.NoError(t, err)
	for _, name := range []string{`"s"."p_locks"`, `"s"."p_rows"`, `"s"."p_fences"`} {
		require.Contains(t, ddl, "CREATE TABLE IF NOT EXISTS "+name)
	}
}

func TestPruneTakesOnlyWhatIsOldAndFree(t *testing.T) {
	server := database(t)
	pool := connect(t, server.URL())
	l := open(t, pool)
	held := acquire(t, l, "held")
	for _, name := range []string{"old", "new", "busy"} {
		cycle(t, l, name)
	}
	week := 7 * 24 * time.Hour
	server.Exec("UPDATE fencelock_locks SET token = token - $1::bigint WHERE name <> 'fencelock/new'", (week + time.Hour).Microseconds())
	server.Exec("INSERT INTO fencelock_rows SELECT key, name FROM fencelock_locks")
	unstick := stick(t, server, "fencelock/busy")
	n, err := pg.Prune(long(t), pool)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	left := []string{"fencelock/busy", "fencelock/held", "fencelock/new"}
	require.Equal(t, left, server.Strings("SELECT name FROM fencelock_locks ORDER BY name"))
	require.Equal(t, left, server.Strings("SELECT name FROM fencelock_rows ORDER BY name"))
	unstick()
	release(t, held)
	require.Greater(t, cycle(t, l, "old"), fencelock.Token(time.Now().Add(-time.Hour).UnixMicro()))
}
