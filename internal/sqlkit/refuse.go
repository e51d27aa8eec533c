package sqlkit

import (
	"errors"
	"fmt"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

// Day is how many microseconds a token may lie ahead of the server: one client
// with a wrong clock must not spoil a name for everybody.
const Day = 24 * 60 * 60 * 1_000_000

// Ahead refuses a MinToken that lies more than a day ahead of the server, whose
// clock or counter, whichever is greater, is now.
func Ahead(min fencelock.Token, now int64) error {
	return lease.Unfit(fmt.Errorf("MinToken(%d) is more than a day ahead of the server's clock (%d)", min, now))
}

// Exhausted refuses to mint beyond an int64.
func Exhausted(min fencelock.Token) error {
	return lease.Unfit(fmt.Errorf("%w: no token above MinToken(%d) and the counter fits into an int64",
		fencelock.ErrRegressed, min))
}

// ErrNoRow is the error for a fenced write that found no row to write to.
var ErrNoRow = errors.New("fencelock: no such row")

// Classify says why a fenced UPDATE of name with token t changed nothing, if the
// row's token is have.
func Classify(name string, t, have fencelock.Token) error {
	if have > t {
		return &fencelock.StaleError{Name: name, Have: t, Want: have}
	}
	return fmt.Errorf("fencelock: %q: the row's token %d admits %d, yet the UPDATE changed no row: "+
		"another part of its WHERE excludes the row, or the row has changed meanwhile", name, have, t)
}

// CheckToken refuses what is no token.
func CheckToken(name string, t fencelock.Token) error {
	if t < 1 {
		return fmt.Errorf("fencelock: fence %q: %d is no token: tokens are positive", name, t)
	}
	return nil
}
