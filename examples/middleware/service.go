package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"

	_ "modernc.org/sqlite" // SQLite in pure Go

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/examples/middleware/fenced"
)

// service keeps documents in a database. Who changes one must hold a lock, wherever
// that is: the service knows tokens only.
type service struct{ db *sql.DB }

func openService(file string) (service, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		return service{}, err
	}
	_, err = db.Exec(`CREATE TABLE documents (id TEXT PRIMARY KEY, body TEXT NOT NULL, fence_token BIGINT NOT NULL)`)
	return service{db}, err
}

func (s service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /documents/{id}", s.get)
	mux.Handle("PUT /documents/{id}", fenced.Require(http.HandlerFunc(s.put)))
	return mux
}

func (s service) get(w http.ResponseWriter, r *http.Request) {
	var body string
	err := s.db.QueryRowContext(r.Context(), `SELECT body FROM documents WHERE id = ?`, r.PathValue("id")).Scan(&body)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		http.NotFound(w, r)
	case err != nil:
		fenced.Fail(w, err)
	default:
		fmt.Fprint(w, body)
	}
}

func (s service) put(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	token, _ := fenced.From(r.Context())
	if err := s.write(r.Context(), r.PathValue("id"), string(body), token); err != nil {
		fenced.Fail(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// write compares the token and writes, in one statement.
func (s service) write(ctx context.Context, id, body string, token fencelock.Token) error {
	result, err := s.db.ExecContext(ctx, `
		INSERT INTO documents (id, body, fence_token) VALUES (?1, ?2, ?3)
		ON CONFLICT (id) DO UPDATE SET body = ?2, fence_token = ?3 WHERE fence_token <= ?3`, id, body, int64(token))
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return fmt.Errorf("document %s: token %d: %w", id, token, fencelock.ErrStale)
}
