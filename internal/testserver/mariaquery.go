package testserver

import (
	"context"
	"database/sql"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// Exec runs one statement behind the clients' back, as root over a connection of its own. An error fails the test.
func (s *MariaDB) Exec(query string, args ...any) {
	s.tb.Helper()
	s.Strings(query, args...)
}

// Strings is Exec and returns the rows as text, columns joined by "|", NULL as nothing.
func (s *MariaDB) Strings(query string, args ...any) []string {
	s.tb.Helper()
	rows, err := s.Try(query, args...)
	if err != nil {
		s.tb.Fatalf("testserver: %q at %s: %v", query, s.admin.Addr, err)
	}
	return rows
}

// Try is Strings for tests that expect an error, and for goroutines that must not fail the test.
func (s *MariaDB) Try(query string, args ...any) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), doTime)
	defer cancel()
	config := s.admin.Clone()
	config.Timeout, config.Logger, config.InterpolateParams = doTime, &mysql.NopLogger{}, true
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var texts []string
	for rows.Next() {
		columns, into := make([]sql.RawBytes, len(names)), make([]any, len(names))
		for i := range columns {
			into[i] = &columns[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		row := make([]string, len(names))
		for i, column := range columns {
			row[i] = string(column)
		}
		texts = append(texts, strings.Join(row, "|"))
	}
	return texts, rows.Err()
}
