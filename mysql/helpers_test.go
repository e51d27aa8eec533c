package mysql_test

import (
	"database/sql"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testlock"
	"github.com/fencelock/fencelock/mysql"
)

// These fail the test if they cannot; see testlock.
var (
	long       = testlock.Long
	acquire    = testlock.Acquire
	release    = testlock.Release
	cycle      = testlock.Cycle
	lost       = testlock.Lost
	eventually = testlock.Eventually
)

// open returns a Locker that is closed with the test.
func open(t testing.TB, style constructor, db *sql.DB, opts ...fencelock.Option) *mysql.Locker {
	t.Helper()
	l, err := style(db, opts...)
	return testlock.Open(t, l, err)
}
