package pg_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
)

func TestContest(t *testing.T) {
	for style := range styles {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			server := testserver.StartPostgres(t, "max_connections=400", "restart_after_crash=on")
			migrate(t, server)
			testserver.Contest(t, server, func() []string { return residue(server) }, "contend", style, server.URL())
		})
	}
}

// contend is a worker of the contest.
func contend(args []string, in io.Reader, out io.Writer) error {
	config, err := pgxpool.ParseConfig(args[1])
	if err != nil {
		return err
	}
	config.MaxConns = 4
	config.ConnConfig.ConnectTimeout = 2 * time.Second
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return err
	}
	defer pool.Close()
	l, err := styles[args[0]](pool, fencelock.TTL(testserver.ContestTTL))
	if err != nil {
		return err
	}
	return testserver.Contend(l, in, out)
}
