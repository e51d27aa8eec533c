package pg_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/locktest"
	"github.com/fencelock/fencelock/pg"
)

// What a worker process is told: where the server is, and the kind of lock.
const (
	urlEnv   = "FENCELOCK_PG_TEST_URL"
	styleEnv = "FENCELOCK_PG_TEST_STYLE"
)

// styles are the kinds of locks, for tests that all of them must pass.
var styles = map[string]func(*pgxpool.Pool, ...fencelock.Option) (*pg.Locker, error){
	"lease": pg.NewLease,
}

func TestMain(m *testing.M) {
	locktest.Work(func(opts ...fencelock.Option) (locktest.Locker, error) {
		config, err := pgxpool.ParseConfig(os.Getenv(urlEnv))
		if err != nil {
			return nil, err
		}
		noCancel(config)
		pool, err := pgxpool.NewWithConfig(context.Background(), config)
		if err != nil {
			return nil, err
		}
		open := styles[os.Getenv(styleEnv)]
		if open == nil {
			return nil, fmt.Errorf("no style %q", os.Getenv(styleEnv))
		}
		return open(pool, opts...)
	})
	testserver.RegisterWorker("contend", contend)
	testserver.Main(m)
}
