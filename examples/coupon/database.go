package main

import (
	"database/sql"
	"fmt"
	"net/url"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // PostgreSQL
	_ "modernc.org/sqlite"             // SQLite in pure Go
)

// openDatabase opens the shop's database: postgres://… or sqlite:/a/file.
func openDatabase(address string) (*sql.DB, error) {
	scheme, file, _ := strings.Cut(address, ":")
	switch scheme {
	case "postgres", "postgresql":
		return sql.Open("pgx", address)
	case "sqlite":
		// Several processes share the file. Writers take their turn when they
		// begin: one that read first and writes later would be refused instead
		// of waiting.
		q := url.Values{
			"_pragma": {"busy_timeout(20000)", "journal_mode(WAL)", "synchronous(NORMAL)"},
			"_txlock": {"immediate"},
		}
		return sql.Open("sqlite", "file:"+file+"?"+q.Encode())
	default:
		return nil, fmt.Errorf("database %q is neither postgres://… nor sqlite:/a/file", address)
	}
}
