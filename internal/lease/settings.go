package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/option"
)

const (
	minTTL     = 10 * time.Millisecond
	maxName    = 8 << 10
	defTTL     = 30 * time.Second
	defPrefix  = "fencelock/"
	defPasses  = 4095
	defPollMin = 5 * time.Millisecond
	defPollMax = 250 * time.Millisecond
)

// Settings applies the options of a backend's New to the defaults and checks
// them. own lists the keys of the backend's own options.
func Settings(backend string, opts []fencelock.Option, own ...any) (option.Set, error) {
	return settings(backend+".New", opts, own)
}

// PrefixOf is Settings for what holds no locks, as a fence: of the common options
// only Prefix has a meaning there. what is the constructor, such as redis.NewFence.
func PrefixOf(what string, opts []fencelock.Option, own ...any) (option.Set, error) {
	s, err := settings(what, opts, own)
	for _, f := range []option.Field{option.TTL, option.Wait, option.Backoff, option.Passes, option.Observe} {
		if err == nil && s.Given(f) {
			err = fmt.Errorf("fencelock: %s: of the common options only Prefix has a meaning here", what)
		}
	}
	return s, err
}

func settings(what string, opts []fencelock.Option, own []any) (option.Set, error) {
	s := option.Set{TTL: defTTL, Prefix: defPrefix, Passes: defPasses, BackoffMin: defPollMin, BackoffMax: defPollMax}
	if err := apply(&s, opts); err != nil {
		return s, fmt.Errorf("fencelock: %s: %w", what, err)
	}
	for key := range s.Keys() {
		if !slices.Contains(own, key) {
			return s, fmt.Errorf("fencelock: %s: option %T is another backend's", what, key)
		}
	}
	if s.Given(option.MinToken) {
		return s, fmt.Errorf("fencelock: %s: option MinToken(%d) belongs to one name: give it to Acquire", what, s.MinToken)
	}
	if s.Given(option.Observe) && observer(s) == nil {
		return s, fmt.Errorf("fencelock: %s: option Observe(nil)", what)
	}
	return s, nil
}

// override applies the options of a call to a copy of New's.
func override(s option.Set, opts []fencelock.Option) (option.Set, error) {
	prefix := s.Prefix
	s.Reset()
	if err := apply(&s, opts); err != nil {
		return s, err
	}
	switch {
	case s.Given(option.Prefix):
		return s, fmt.Errorf("option Prefix(%q) is for New only, it is %q here", s.Prefix, prefix)
	case s.Given(option.Observe):
		return s, errors.New("option Observe is for New only")
	case s.Given(option.TTL) && s.Fixed(option.TTL):
		return s, fmt.Errorf("option TTL(%v) is for New only: here it is the session's", s.TTL)
	case s.Given(option.Own):
		return s, errors.New("a backend's own option is for New only")
	}
	return s, nil
}

func apply(s *option.Set, opts []fencelock.Option) error {
	for i, o := range opts {
		if o == nil {
			return fmt.Errorf("option %d is nil", i)
		}
		o(s)
	}
	switch {
	case s.TTL < minTTL:
		return fmt.Errorf("option TTL(%v) is below %v", s.TTL, minTTL)
	case s.Wait < 0:
		return fmt.Errorf("option Wait(%v) is negative", s.Wait)
	case s.BackoffMin <= 0 || s.BackoffMax < s.BackoffMin:
		return fmt.Errorf("option Backoff(%v, %v): want 0 < min <= max", s.BackoffMin, s.BackoffMax)
	case s.MinToken < 0:
		return fmt.Errorf("option MinToken(%d) is negative", s.MinToken)
	case s.Passes < 0:
		return fmt.Errorf("option Passes(%d) is negative", s.Passes)
	}
	return nil
}

func observer(s option.Set) func(context.Context, fencelock.Event) {
	f, _ := s.Observe.(func(context.Context, fencelock.Event))
	return f
}

// CheckName refuses the names that no backend takes. All others are distinct
// locks, whatever bytes they contain.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("fencelock: the name of the lock is empty")
	case len(name) > maxName:
		return fmt.Errorf("fencelock: the name %.20q… has %d bytes, at most %d are allowed", name, len(name), maxName)
	}
	return nil
}
