package pg_test

import (
	"context"
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testlock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/pg"
)

// database returns a database of the test's own with the tables, on the server
// that all tests share.
func database(t testing.TB) *testserver.Postgres {
	t.Helper()
	s := testserver.SharedPostgres(t).NewDatabase(t)
	migrate(t, s)
	return s
}

func migrate(t testing.TB, s *testserver.Postgres) {
	t.Helper()
	require.NoError(t, pg.Migrate(long(t), connect(t, s.URL())))
}

// connect returns a pool that ends with the test.
func connect(t testing.TB, url string, set ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	config.MaxConns = 16
	config.ConnConfig.ConnectTimeout = 2 * time.Second
	for _, f := range set {
		f(config)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// param sets a parameter of the pool's sessions.
func param(name, value string) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams[name] = value }
}

func execMode(m pgx.QueryExecMode) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = m }
}

// noCancel keeps requests to cancel a statement from the server: PgBouncer 1.18
// and 1.19 end of some (pgbouncer#822, #847). What they would end goes on then,
// which is the harder case.
func noCancel(c *pgxpool.Config) {
	dial := c.ConnConfig.DialFunc
	c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return withoutCancel{conn}, nil
	}
}

type withoutCancel struct{ net.Conn }

func (c withoutCancel) Write(b []byte) (int, error) {
	if len(b) == 16 && binary.BigEndian.Uint32(b[4:]) == 80877102 {
		return len(b), c.Close()
	}
	return c.Conn.Write(b)
}

// traced counts the statements of a pool, and of connections made after it.
func traced(n *atomic.Int64) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer{n} }
}

type tracer struct{ n *atomic.Int64 }

func (t tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	t.n.Add(1)
	return ctx
}

func (tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// These fail the test if they cannot; see testlock.
var (
	long       = testlock.Long
	acquire    = testlock.Acquire
	release    = testlock.Release
	cycle      = testlock.Cycle
	eventually = testlock.Eventually
)

// open returns a Locker of leases that is closed with the test.
func open(t testing.TB, pool *pgxpool.Pool, opts ...fencelock.Option) *pg.Locker {
	t.Helper()
	l, err := pg.NewLease(pool, opts...)
	return testlock.Open(t, l, err)
}

// begin returns a transaction that ends with the test at the latest.
func begin(t testing.TB, pool *pgxpool.Pool, opts ...pgx.TxOptions) pgx.Tx {
	t.Helper()
	tx, err := pool.BeginTx(long(t), append(opts, pgx.TxOptions{})[0])
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}
