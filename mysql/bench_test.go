package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/fencelock/fencelock/internal/testlock"
	"github.com/fencelock/fencelock/internal/testserver"
)

// interpolated saves the trip that prepares a statement, for the floor and ours.
func interpolated(c *driver.Config) { c.InterpolateParams = true }

// The floor is what a lease without token, tombstone or turns costs: one upsert
// and one update, by hand.
func floor(ctx context.Context, db *sql.DB, owner string) error {
	for _, q := range []struct {
		sql  string
		args []any
	}{
		{`INSERT INTO plain (id, owner, expires_at) VALUES ('k', ?, UTC_TIMESTAMP(6) + INTERVAL 30 SECOND)
			ON DUPLICATE KEY UPDATE owner = IF(expires_at < UTC_TIMESTAMP(6), VALUES(owner), owner),
			expires_at = IF(owner = VALUES(owner), VALUES(expires_at), expires_at)`, []any{owner}},
		{`UPDATE plain SET expires_at = '1970-01-01' WHERE id = 'k' AND owner = ?`, []any{owner}},
	} {
		if _, err := db.ExecContext(ctx, q.sql, q.args...); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkLease compares the lease with the floor, by turns, so that what else
// the machine does falls on both.
func BenchmarkLease(b *testing.B) {
	server := testserver.StartMariaDB(b, "--innodb-flush-log-at-trx-commit=1")
	migrate(b, server)
	db := dial(b, server.DSN(), interpolated)
	server.Exec("CREATE TABLE plain (id VARCHAR(20) PRIMARY KEY, owner VARCHAR(32), expires_at DATETIME(6))")
	l := open(b, styles["lease"], db)
	ctx := context.Background()
	var n atomic.Int64
	testlock.Compare(b, 1, 100, "floor",
		func(int) error { return floor(ctx, db, fmt.Sprint(n.Add(1))) },
		func(int) error { return testlock.Once(ctx, l, "k") })
}

// BenchmarkStyles reports what an uncontended acquire and release cost in each
// style: time, and statements at the server.
func BenchmarkStyles(b *testing.B) {
	server := testserver.StartMariaDB(b, "--innodb-flush-log-at-trx-commit=1")
	migrate(b, server)
	statements := func() float64 {
		n, _ := strconv.ParseFloat(server.Strings("SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'QUESTIONS'")[0], 64)
		return n
	}
	for style, newLocker := range styles {
		b.Run(style, func(b *testing.B) {
			l := open(b, newLocker, dial(b, server.DSN(), interpolated))
			ctx := context.Background()
			for range 3 {
				if err := testlock.Once(ctx, l, style); err != nil {
					b.Fatal(err)
				}
			}
			before := statements()
			b.ResetTimer()
			for range b.N {
				if err := testlock.Once(ctx, l, style); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			b.ReportMetric((statements()-before)/float64(b.N), "statements/op")
		})
	}
}
