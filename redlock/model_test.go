package redlock

import (
	"slices"
	"time"

	"github.com/fencelock/fencelock"
)

// model is a node as acquire.lua and release.lua make it, without the queue.
// TestModelIsTheScripts holds it against the scripts.
type model struct {
	holder  string // attempt
	block   block  // of the holder
	counter fencelock.Token
	dead    []string
	now     fencelock.Token // its clock
	loose   bool            // broken on purpose: accepts what is equal to the counter
}

func (m *model) acquire(attempt string, p block) vote {
	v := vote{to: p, now: m.now}
	v.verdict = m.judge(attempt, p)
	if v.verdict == accepted && (m.holder != attempt || m.block != p) {
		m.holder, m.block, m.counter = attempt, p, p.last
	}
	v.counter = m.counter
	return v
}

func (m *model) judge(attempt string, p block) verdict {
	switch {
	case slices.Contains(m.dead, attempt):
		return dead
	case m.holder == attempt && m.block == p:
		return accepted
	case m.holder != "" && m.holder != attempt:
		return held
	case m.counter == 0 && (p.first != p.last || m.now > day && p.first <= m.now-day):
		return stale
	case m.loose && p.first < m.counter || !m.loose && p.first <= m.counter:
		return stale
	case p.last-day > max(m.counter, m.now):
		return ahead
	}
	return accepted
}

func (m *model) release(attempt string, last fencelock.Token) standing {
	s := taken
	switch {
	case m.holder == attempt:
		s, m.holder = ours, ""
	case slices.Contains(m.dead, attempt):
		s = ours
	case m.holder == "":
		s = free
	}
	if !slices.Contains(m.dead, attempt) {
		m.dead = append([]string{attempt}, m.dead[:min(len(m.dead), 31)]...)
	}
	if last > m.counter && last-day <= max(m.counter, m.now) {
		m.counter = last
	}
	return s
}

func (m *model) renew(attempt string, p block) standing {
	switch {
	case m.holder == "":
		return free
	case m.holder != attempt || m.block != p:
		return taken
	}
	return ours
}

// expire is the end of the lock's TTL, at any time: clocks step.
func (m *model) expire() { m.holder = "" }

const hour = fencelock.Token(time.Hour / time.Microsecond)
