package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/sqlkit"
)

// DDL returns the statements that create the tables, for people who run their
// own migrations: the text of schema.sql, with other names if Schema or
// TablePrefix are given.
func DDL(opts ...fencelock.Option) (string, error) {
	set, err := sqlkit.Only("pg", "DDL", opts, 0, ownKeys...)
	if err != nil {
		return "", err
	}
	t, err := tablesOf(set)
	if err != nil {
		return "", fmt.Errorf("fencelock: pg.DDL: %w", err)
	}
	return t.sql("schema.sql"), nil
}

// Migrate creates the tables if they are missing. Any number of processes may
// call it at the same time. If the tables are there, it needs no right to create
// any. Of the options, Schema and TablePrefix have a meaning here.
func Migrate(ctx context.Context, pool *pgxpool.Pool, opts ...fencelock.Option) error {
	db, _, err := open("Migrate", pool, opts, 0)
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		// CREATE TABLE IF NOT EXISTS fails if another does the same just now.
		turn := sqlkit.KeyOf("fencelock: migrate").Int64()
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", pgx.QueryExecModeExec, turn); err != nil {
			return err
		}
		missing := false
		err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NULL OR to_regclass($2) IS NULL OR to_regclass($3) IS NULL",
			pgx.QueryExecModeExec, db.t.locks, db.t.rows, db.t.fences).Scan(&missing)
		if err != nil || !missing {
			return err
		}
		_, err = tx.Exec(ctx, db.t.sql("schema.sql"), pgx.QueryExecModeSimpleProtocol)
		return err
	})
	if code(err) == invalidSchema {
		err = fmt.Errorf("create the schema first: %w", err)
	} else {
		err = explain(err)
	}
	if err != nil {
		return fmt.Errorf("fencelock: pg.Migrate: %w", err)
	}
	return nil
}
