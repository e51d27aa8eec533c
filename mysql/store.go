package mysql

import (
	"context"
	"errors"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/sqlkit"
)

// state is what look reads of a name.
type state struct {
	now         int64
	exists      bool
	token       int64
	first       fencelock.Token
	owner       string // "" if there is none
	expires     int64
	wasReleased bool // the attempt asked about
	isDead      bool
	locker      string // that has or had the lease
	waiting     int64  // until when it is for others
}

// look reads without waiting for anybody's row lock.
func (t tables) look(ctx context.Context, r runner, v values) (s state, err error) {
	err = r.row(ctx, t.text(lookSQL, v),
		&s.now, &s.exists, &s.token, &s.first, &s.owner, &s.expires, &s.wasReleased, &s.isDead, &s.locker, &s.waiting)
	return s, err
}

func (s state) held() bool { return s.owner != "" && s.expires > s.now }

// left is how long the lease lasts unless it is renewed.
func (s state) left() time.Duration { return time.Duration(s.expires-s.now) * time.Microsecond }

// refusal says why no token can be minted, nil if one can.
func (s state) refusal(min fencelock.Token) error {
	most := max(s.token, s.now)
	switch {
	case int64(min)-sqlkit.Day > most:
		return sqlkit.Ahead(min, most)
	case max(most, int64(min)) >= maxToken-1:
		return sqlkit.Exhausted(min)
	}
	return nil
}

// errContended is what remains to be said when a row was never seen at rest.
var errContended = errors.New("the row changes all the time")

// grant runs update and, if there is no row, insert. It returns the block that
// was minted and when that was asked for. If update left the row alone, verdict
// says why; a nil verdict means that it has changed meanwhile.
func (t tables) grant(
	ctx context.Context, r runner, update, insert string, v values, verdict func(state) error,
) (g lease.Grant, err error) {
	var word uint64
	ask := func(statement string) bool {
		g.Since = time.Now()
		word, err = r.exec(ctx, t.text(statement, v))
		return err != nil || word != 0
	}
	for range 5 {
		if ask(update) {
			break
		}
		s, err := t.look(ctx, r, v)
		if err == nil {
			err = s.refusal(v.min)
		}
		if err == nil && s.exists {
			err = verdict(s)
		}
		if err != nil {
			return g, err
		}
		if !s.exists && ask(insert) {
			break
		}
	}
	switch {
	case err != nil:
		return g, err
	case word == 0:
		return g, errContended
	}
	g.Last = fencelock.Token(word >> 12)
	g.First = g.Last - fencelock.Token(word%maxBlock)
	return g, nil
}

// mint takes a block of n tokens from the counter of a name.
func (t tables) mint(ctx context.Context, r runner, v values) (lease.Grant, error) {
	return t.grant(ctx, r, mintSQL, mintNewSQL, v, func(state) error { return nil })
}
