package main

import (
	"context"
	"database/sql"
	"errors"
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
		return limited(sql.Open("pgx", address))
	case "sqlite":
		// Several processes share the file. Writers take their turn when they
		// begin: one that read first and writes later would be refused instead
		// of waiting.
		q := url.Values{
			"_pragma": {"busy_timeout(20000)", "journal_mode(WAL)", "synchronous(NORMAL)"},
			"_txlock": {"immediate"},
		}
		return limited(sql.Open("sqlite", "file:"+file+"?"+q.Encode()))
	default:
		return nil, fmt.Errorf("database %q is neither postgres://… nor sqlite:/a/file", address)
	}
}

// limited bounds what one process takes from a server that many share. A lock
// lets one request at a time come here, and now and then one that lost it.
func limited(db *sql.DB, err error) (*sql.DB, error) {
	if err == nil {
		db.SetMaxOpenConns(4)
		db.SetMaxIdleConns(4)
	}
	return db, err
}

const createTables = `
	CREATE TABLE IF NOT EXISTS fencelock_sales (
		name   TEXT PRIMARY KEY,
		issued BIGINT NOT NULL DEFAULT 0,
		fence  BIGINT NOT NULL DEFAULT 0
	);
	CREATE TABLE IF NOT EXISTS fencelock_coupons (
		sale    TEXT NOT NULL,
		number  BIGINT NOT NULL,
		request TEXT NOT NULL,
		PRIMARY KEY (sale, number)
	);
	CREATE TABLE IF NOT EXISTS fencelock_tokens (
		name  TEXT PRIMARY KEY,
		token BIGINT NOT NULL
	)`

const dropTables = `
	DROP TABLE IF EXISTS fencelock_sales;
	DROP TABLE IF EXISTS fencelock_coupons;
	DROP TABLE IF EXISTS fencelock_tokens`

// execute runs statements on the database at address.
func execute(ctx context.Context, address, statements string) (err error) {
	db, err := openDatabase(address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = db.ExecContext(ctx, statements)
	return err
}
