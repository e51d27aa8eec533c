package main

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
)

// rowTokens mints tokens from a row of the database, by optimistic locking: read
// the number, and write the next one if nobody else has done so meanwhile.
type rowTokens struct{ db *sql.DB }

// Next implements fencelock.TokenSource.
func (s rowTokens) Next(ctx context.Context, name string) (fencelock.Token, error) {
	for {
		var last int64
		err := s.db.QueryRowContext(ctx, `SELECT token FROM fencelock_tokens WHERE name = $1`, name).Scan(&last)
		if errors.Is(err, sql.ErrNoRows) {
			_, err = s.db.ExecContext(ctx,
				`INSERT INTO fencelock_tokens (name, token) VALUES ($1, 0) ON CONFLICT (name) DO NOTHING`, name)
		}
		if err != nil {
			return 0, err
		}
		r, err := s.db.ExecContext(ctx,
			`UPDATE fencelock_tokens SET token = $3 WHERE name = $1 AND token = $2`, name, last, last+1)
		if err != nil {
			return 0, err
		}
		if n, err := r.RowsAffected(); err != nil {
			return 0, err
		} else if n == 1 {
			return fencelock.Token(last + 1), nil
		}
	}
}

// timedTokens notes how long each token of a source took.
type timedTokens struct {
	fencelock.TokenSource

	mu     sync.Mutex
	micros []int64
}

// Next implements fencelock.TokenSource.
func (s *timedTokens) Next(ctx context.Context, name string) (fencelock.Token, error) {
	start := time.Now()
	token, err := s.TokenSource.Next(ctx, name)
	took := time.Since(start)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.micros = append(s.micros, took.Microseconds())
	}
	return token, err
}

// times returns the microseconds of all tokens minted so far.
func (s *timedTokens) times() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int64{}, s.micros...)
}
