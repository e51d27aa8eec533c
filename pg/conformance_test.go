package pg_test

import (
	"context"
	"crypto/sha256"
	"os/exec"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/locktest"
	"github.com/fencelock/fencelock/pg"
)

func TestConformanceLease(t *testing.T) {
	server := testserver.StartPostgres(t, "max_connections=400")
	migrate(t, server)
	locktest.Run(t, suite(server, "lease", server.Addr(), server.URL()))
}

// S10, S23: the same suite in the pools' default mode, which prepares statements.
func TestConformanceLeaseThroughPgBouncer(t *testing.T) {
	server := testserver.StartPostgres(t, "max_connections=400")
	migrate(t, server)
	bouncer := testserver.PgBouncer(t, server, "default_pool_size=60")
	locktest.Run(t, suite(server, "lease", bouncer.Addr(), bouncer.URL(), noCancel))
}

// suite describes a style to locktest; addr and url are the server's or its
// pooler's.
func suite(server *testserver.Postgres, style, addr, url string, set ...func(*pgxpool.Config)) locktest.Backend {
	var commands atomic.Int64
	server.Exec("CREATE ROLE powerless LOGIN")
	open := func(t testing.TB, url string, opts []fencelock.Option, more ...func(*pgxpool.Config)) locktest.Locker {
		l, err := styles[style](connect(t, url, slices.Concat(set, more, []func(*pgxpool.Config){traced(&commands)})...), opts...)
		require.NoError(t, err)
		return l
	}
	via := func(p *testserver.Proxy) string { return server.Via(p.Addr()) }
	return locktest.Backend{
		New: func(t testing.TB, opts ...fencelock.Option) locktest.Locker { return open(t, url, opts) },
		Via: func(t testing.TB, opts ...fencelock.Option) (locktest.Locker, locktest.Link) {
			p := testserver.NewProxy(t, addr)
			l := open(t, via(p), opts)
			t.Cleanup(p.Cut) // the pool need not wait for a network that has gone
			return l, testserver.Link{Proxy: p}
		},
		Refused: func(t testing.TB, opts ...fencelock.Option) locktest.Locker {
			p := testserver.NewProxy(t, addr)
			p.Cut()
			return open(t, via(p), opts)
		},
		Broken: func(t testing.TB, opts ...fencelock.Option) locktest.Locker {
			return open(t, server.URL(), opts, func(c *pgxpool.Config) { c.ConnConfig.User = "powerless" })
		},
		Delete: func(_ testing.TB, name string) {
			server.Exec("DELETE FROM fencelock_locks WHERE key = $1", keyOf("fencelock/"+name))
		},
		Residue:  func(testing.TB) []string { return residue(server) },
		Commands: func(testing.TB) int { return int(commands.Load()) },
		Stick:    func(t testing.TB, name string) func() { return stick(t, server, "fencelock/"+name) },
		Worker: func(testing.TB) *exec.Cmd {
			return locktest.Self(urlEnv+"="+url, styleEnv+"="+style)
		},
		TTL: 2 * time.Second,
	}
}

// residue lists held leases, locks of sessions, and connections of our own.
func residue(server *testserver.Postgres) []string {
	left := server.Strings("SELECT 'lease of ' || name FROM fencelock_locks WHERE owner IS NOT NULL AND expires_at > clock_timestamp()")
	left = append(left, server.Strings(`SELECT 'advisory lock of process ' || pid FROM pg_locks
		WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)...)
	return append(left, server.Strings(`SELECT application_name || ' ' || pid || ': ' || query FROM pg_stat_activity
		WHERE application_name = 'fencelock' AND datname = current_database()`)...)
}

func keyOf(key string) []byte {
	id := sha256.Sum256([]byte(key))
	return id[:]
}

// stick locks the row of key in another transaction.
func stick(t testing.TB, server *testserver.Postgres, key string) (release func()) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, server.URL())
	require.NoError(t, err)
	_, err = c.Exec(ctx, "BEGIN")
	require.NoError(t, err)
	tag, err := c.Exec(ctx, "UPDATE fencelock_locks SET name = name WHERE key = $1", keyOf(key))
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected())
	return func() { _ = c.Close(ctx) }
}

func TestFence(t *testing.T) {
	pool := connect(t, database(t).URL())
	locktest.RunFence(t, func(testing.TB) fencelock.Fence { return inTxFence{pool} })
}

// inTxFence admits in a transaction each.
type inTxFence struct{ pool *pgxpool.Pool }

func (f inTxFence) Admit(ctx context.Context, name string, token fencelock.Token) error {
	return pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
		fence, err := pg.NewFence(tx)
		if err != nil {
			return err
		}
		return fence.Admit(ctx, name, token)
	})
}

func TestTokens(t *testing.T) {
	pool := connect(t, database(t).URL())
	locktest.RunTokens(t, func(t testing.TB) fencelock.TokenSource {
		s, err := pg.NewTokens(pool)
		require.NoError(t, err)
		return s
	})
}

func TestOptimisticTokens(t *testing.T) {
	pool := connect(t, database(t).URL())
	locktest.RunTokens(t, func(t testing.TB) fencelock.TokenSource {
		s, err := pg.NewOptimisticTokens(pool)
		require.NoError(t, err)
		return s
	})
}
