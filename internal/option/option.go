// Package option holds what fencelock's options set. It exists so that the
// engine and the backends can read an Option and the public API need not show
// it.
package option

import (
	"maps"
	"time"
)

// Field names one option of the root package.
type Field uint

// The options of the root package, and the backends' own.
const (
	TTL Field = 1 << iota
	Wait
	Backoff
	MinToken
	Passes
	Prefix
	Observe
	Own // any of a backend's own
)

// Set is the values of all options, and which of them have been given.
type Set struct {
	TTL                    time.Duration
	Wait                   time.Duration
	BackoffMin, BackoffMax time.Duration
	MinToken               int64
	Passes                 int
	Prefix                 string
	Observe                any // func(context.Context, fencelock.Event), which this package cannot name

	given Field
	fixed Field       // may not be given in a call
	own   map[any]any // a backend's own options; never changed in place, since copies of a Set share it
}

// Give notes that f has been given.
func (s *Set) Give(f Field) { s.given |= f }

// Given reports whether f has been given.
func (s *Set) Given(f Field) bool { return s.given&f != 0 }

// Fix makes f an option for New only.
func (s *Set) Fix(f Field) { s.fixed |= f }

// Fixed reports whether f is for New only.
func (s *Set) Fixed(f Field) bool { return s.fixed&f != 0 }

// Reset forgets what has been given but keeps the values, as the ground for a
// call's options. A Wait stays given.
func (s *Set) Reset() { s.given &= Wait }

// Put gives a backend's own option. The key's type belongs to that backend.
func (s *Set) Put(key, value any) {
	own := maps.Clone(s.own)
	if own == nil {
		own = make(map[any]any, 1)
	}
	own[key] = value
	s.own = own
	s.Give(Own)
}

// Own returns the value of a backend's own option, nil if it was not given.
func (s *Set) Own(key any) any { return s.own[key] }

// Keys returns the keys of the backends' own options that have been given.
func (s *Set) Keys() map[any]any { return s.own }
