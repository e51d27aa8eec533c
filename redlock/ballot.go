package redlock

import (
	"slices"
	"time"

	"github.com/fencelock/fencelock"
)

// verdict is what a node says to a proposal.
type verdict int

const (
	silent   verdict = iota // nothing yet
	accepted                // the lock is this attempt's, the counter the block's last token
	held                    // somebody else has the lock, or it is somebody else's turn
	stale                   // not above the counter, or too long a block for a node without one
	ahead                   // more than a day above both counter and clock
	dead                    // the attempt has been given up
	failed                  // no answer could be had
	verdicts
)

// vote is a node's answer to a proposal.
type vote struct {
	verdict
	to      block           // the proposal that it answers
	counter fencelock.Token // the last token that the node has accepted, 0 if it knows of none
	now     fencelock.Token // the node's clock
	left    time.Duration   // held: how long it may remain so
	err     error           // failed: why
}

// floor is the token above which the node accepts.
func (v vote) floor() fencelock.Token {
	if v.counter == 0 {
		return v.now - day
	}
	return v.counter
}

// takes reports whether the node would accept p now, as far as one can know.
func (v vote) takes(p block) bool {
	switch v.verdict {
	case silent:
		return true
	case accepted, stale, ahead:
		return p.first > v.floor() && p.last-day <= max(v.counter, v.now)
	}
	return false
}

// result is what the votes so far amount to.
type result int

const (
	open      result = iota // wait for more votes
	won                     // a majority has accepted the same block
	again                   // propose the new block to all nodes
	refused                 // enough nodes answer, but somebody else is in the way
	absent                  // too few nodes answer
	exhausted               // no token above min is within reach of a majority
)

// ballot decides an attempt from the nodes' votes, in one round or two. It knows
// neither network nor clock, so that tests can run it against any order of
// messages.
//
// Why tokens rise with every grant: any two grants share a node, and a node
// accepts only what lies strictly above all that it has accepted before. No
// clock has a part in it; a client whose clock is behind needs the second round.
type ballot struct {
	block                  // the proposal
	min    fencelock.Token // the tokens must lie above it
	size   int             // of the block that is wanted
	votes  []vote          // on the proposal, by node
	second bool            // this is the second round
}

// newBallot makes the first proposal, by the client's clock. floor is the
// greatest token that the client has seen for the name, 0 if none.
func newBallot(nodes int, floor, min, now fencelock.Token, size int) *ballot {
	first := size
	if floor == 0 {
		first = 1 // a name that is new to us may be new to the nodes
	}
	return &ballot{block: propose(max(floor, min), now, first), min: min, size: size, votes: make([]vote, nodes)}
}

// hear takes a node's vote and says what the votes amount to. After [again] the
// ballot has a new block. A vote on another block than the present one counts
// for nothing: accepts of two rounds do not add up to a majority, since one node
// may have given both.
func (b *ballot) hear(node int, v vote) result {
	if was := b.votes[node].verdict; v.to != b.block || was != silent && was != failed {
		return open
	}
	b.votes[node] = v
	var of [verdicts]int
	for _, v := range b.votes {
		of[v.verdict]++
	}
	quorum := b.quorum()
	possible := of[accepted] + of[silent]
	switch {
	case of[accepted] >= quorum:
		return won
	case possible >= quorum:
		return open
	case possible+of[stale]+of[ahead] >= quorum:
		return b.reword()
	case len(b.votes)-of[failed] < quorum:
		return absent
	}
	return refused
}

// silence counts nodes that have not voted as failed.
func (b *ballot) silence(err error, which func(node int) bool) result {
	state := open
	for node, v := range b.votes {
		if v.verdict == silent && state == open && which(node) {
			state = b.hear(node, vote{verdict: failed, to: b.block, err: err})
		}
	}
	return state
}

func (b *ballot) quorum() int { return len(b.votes)/2 + 1 }

// reword makes the second proposal from the answers to the first.
func (b *ballot) reword() result {
	var clocks, floors []fencelock.Token
	size := b.size
	for _, v := range b.votes {
		if v.now == 0 {
			continue
		}
		clocks = append(clocks, v.now)
		floors = append(floors, v.floor())
		if v.counter == 0 {
			size = 1 // a block must not reach back over tokens that the node has forgotten
		}
	}
	slices.Sort(clocks)
	slices.Sort(floors)
	now := clocks[(len(clocks)-1)/2]
	// One node whose counter is out of the others' reach must not spoil the name.
	for _, floor := range slices.Backward(floors) {
		next := propose(max(b.min, floor), now, size)
		if next == (block{}) || !b.reachable(next) {
			continue
		}
		if b.second {
			return refused // others were quicker twice
		}
		b.block, b.second = next, true
		clear(b.votes)
		return again
	}
	return exhausted
}

// reachable reports whether a majority might accept p.
func (b *ballot) reachable(p block) bool {
	n := 0
	for _, v := range b.votes {
		if v.takes(p) {
			n++
		}
	}
	return n >= b.quorum()
}

// left is how long it takes until a majority may be free, unless the holder
// renews.
func (b *ballot) left() time.Duration {
	var lefts []time.Duration
	others := 0
	for _, v := range b.votes {
		switch v.verdict {
		case held:
			lefts = append(lefts, v.left)
		case failed:
		default:
			others++
		}
	}
	need := b.quorum() - others
	if need <= 0 || need > len(lefts) {
		return 0
	}
	slices.Sort(lefts)
	return lefts[need-1]
}

// median is the counter that half of the nodes have reached.
func (b *ballot) median() fencelock.Token {
	var counters []fencelock.Token
	for _, v := range b.votes {
		if v.now > 0 {
			counters = append(counters, v.counter)
		}
	}
	if len(counters) == 0 {
		return 0
	}
	slices.Sort(counters)
	return counters[(len(counters)-1)/2]
}

// errs returns why the nodes that did not answer failed.
func (b *ballot) errs() (errs []error) {
	for _, v := range b.votes {
		if v.verdict == failed {
			errs = append(errs, v.err)
		}
	}
	return errs
}
