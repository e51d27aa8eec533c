package testserver

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Exec runs SQL behind the clients' back, as a superuser over a connection of its own. Without args it may be several
// statements. An error fails the test.
func (s *Postgres) Exec(sql string, args ...any) {
	s.tb.Helper()
	s.Strings(sql, args...)
}

// Strings is Exec and returns the rows as text, columns joined by "|", NULL as nothing.
func (s *Postgres) Strings(sql string, args ...any) []string {
	s.tb.Helper()
	rows, err := s.Try(sql, args...)
	if err != nil {
		s.tb.Fatalf("testserver: %q at %s: %v", sql, s.admin.Host, err)
	}
	return rows
}

// Try is Strings for tests that expect an error, and for goroutines that must not fail the test.
func (s *Postgres) Try(sql string, args ...any) ([]string, error) {
	return queryPostgres(s.admin.String(), sql, args)
}

func queryPostgres(url, sql string, args []any) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), doTime)
	defer cancel()
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["application_name"] = "testserver"
	c, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer c.Close(ctx)
	if len(args) == 0 {
		results, err := c.Exec(ctx, sql).ReadAll()
		if err != nil {
			return nil, err
		}
		var rows []string
		for _, r := range results {
			rows = append(rows, texts(r)...)
		}
		return rows, nil
	}
	params := make([][]byte, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case nil:
		case []byte:
			params[i] = []byte(`\x` + hex.EncodeToString(arg))
		default:
			params[i] = fmt.Append(nil, arg)
		}
	}
	r := c.ExecParams(ctx, sql, params, nil, nil, nil).Read()
	return texts(r), r.Err
}

func texts(r *pgconn.Result) []string {
	var rows []string
	for _, row := range r.Rows {
		columns := make([]string, len(row))
		for i, column := range row {
			columns[i] = string(column)
		}
		rows = append(rows, strings.Join(columns, "|"))
	}
	return rows
}
