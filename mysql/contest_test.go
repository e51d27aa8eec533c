package mysql_test

import (
	"database/sql"
	"io"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
)

func TestContest(t *testing.T) {
	for style := range styles {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			b, server := backend(t, style, otherSettings)
			if style == "lease" {
				b = leasesAt(b, server)
			} else {
				b = sessionsAt(b, server, style)
			}
			testserver.Contest(t, server, func() []string { return b.Residue(t) }, "contend", style, server.DSN())
		})
	}
}

// contend is a worker of the contest.
func contend(args []string, in io.Reader, out io.Writer) error {
	config, err := driver.ParseDSN(args[1])
	if err != nil {
		return err
	}
	config.Timeout = 2 * time.Second
	connector, err := driver.NewConnector(config)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	l, err := styles[args[0]](db, fencelock.TTL(testserver.ContestTTL))
	if err != nil {
		return err
	}
	return testserver.Contend(l, in, out)
}
