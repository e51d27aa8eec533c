package redlock

import (
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/redisnode"
)

//go:embed lib.lua
var lib string

//go:embed acquire.lua
var acquireText string

//go:embed release.lua
var releaseText string

//go:embed renew.lua
var renewText string

//go:embed leave.lua
var leaveText string

//go:embed status.lua
var statusText string

var (
	acquireScript = redisnode.NewScript(lib + acquireText)
	releaseScript = redisnode.NewScript(lib + releaseText)
	renewScript   = redisnode.NewBareScript(renewText)
	leaveScript   = redisnode.NewScript(lib + leaveText)
	statusScript  = redisnode.NewScript(lib + statusText)
)

const (
	companion = ":redlock"            // suffix of the key that holds a name's counter
	grace     = 20 * time.Millisecond // for which a woken Locker has its turn at a node
)

func keysOf(key string) []string { return []string{key, redisnode.Sibling(key, companion)} }

// proposal is what an attempt asks the nodes to accept.
type proposal struct {
	block
	attempt string
	ttl     time.Duration
	waiter  string // the Locker to queue if the lock is held, or ""
}

// value is what the lock key holds.
func value(attempt string, b block) string {
	return attempt + ":" + b.first.String() + ":" + b.last.String()
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// lessDay is for scripts, which cannot calculate with tokens.
func lessDay(t fencelock.Token) string { return max(t-day, 0).String() }

func (p proposal) call(keys []string) redisnode.Call {
	return redisnode.Call{Script: acquireScript, Keys: keys, Args: []string{
		p.attempt, p.first.String(), p.last.String(), lessDay(p.last), millis(p.ttl), p.waiter,
	}}
}

// vote reads a node's answer to p.
func (p proposal) vote(res redisnode.Result) vote {
	v := vote{verdict: failed, to: p.block, err: res.Err}
	if v.err != nil {
		return v
	}
	f, err := res.Strings()
	if err != nil || len(f) != 4 {
		v.err = fmt.Errorf("unexpected reply %v", res.Value)
		return v
	}
	var counter int64
	if f[1] != "" {
		counter, err = strconv.ParseInt(f[1], 10, 64)
	}
	now, err2 := strconv.ParseInt(f[2], 10, 64)
	left, err3 := strconv.ParseInt(f[3], 10, 64)
	if err != nil || err2 != nil || err3 != nil {
		v.err = fmt.Errorf("unexpected reply %v", res.Value)
		return v
	}
	v.counter, v.now = fencelock.Token(counter), fencelock.Token(now)
	v.left = time.Duration(max(left, 0)) * time.Millisecond
	switch f[0] {
	case "accepted":
		v.verdict = accepted
	case "held":
		v.verdict = held
	case "stale":
		v.verdict = stale
	case "ahead":
		v.verdict = ahead
	case "dead":
		v.verdict = dead
	default:
		v.err = fmt.Errorf("unexpected reply %v", res.Value)
	}
	return v
}

// standing is what a node says of an attempt's hold.
type standing int

const (
	unknown standing = iota
	ours
	free
	taken
)

func standingOf(res redisnode.Result) (standing, error) {
	if res.Err != nil {
		return unknown, res.Err
	}
	f, err := res.Strings()
	if err == nil && len(f) == 1 {
		switch f[0] {
		case "ours":
			return ours, nil
		case "free":
			return free, nil
		case "taken":
			return taken, nil
		}
	}
	return unknown, fmt.Errorf("unexpected reply %v", res.Value)
}
