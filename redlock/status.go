package redlock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/redisnode"
)

// Status returns what a majority of the nodes knows of name. It is held if a
// majority has the same holder; Token is the greatest known token if it is not,
// be it of a grant or of an attempt that failed. Waiters counts the processes that
// have been refused and wait to be woken. Too few answers are an error.
func (l *Locker) Status(ctx context.Context, name string) (fencelock.Status, error) {
	if err := lease.CheckName(name); err != nil {
		return fencelock.Status{}, err
	}
	key := l.eng.Key(name)
	call := redisnode.Call{Script: statusScript, Keys: keysOf(key)}
	d := l.driver
	type reply struct {
		view
		err error
	}
	replies := make(chan reply, len(d.nodes))
	for node := range d.nodes {
		d.crew.spawn(func() {
			v, err := viewOf(d.ask(ctx, node, call, d.timeout))
			replies <- reply{v, err}
		})
	}
	var views []view
	var errs []error
	for range d.nodes {
		select {
		case r := <-replies:
			if r.err != nil {
				errs = append(errs, r.err)
			} else {
				views = append(views, r.view)
			}
		case <-ctx.Done():
			return fencelock.Status{}, fmt.Errorf("fencelock: status of %q: %w", name, ctx.Err())
		}
	}
	if len(views) < d.quorum() {
		return fencelock.Status{}, fmt.Errorf("fencelock: status of %q: %w", name, noQuorum(len(views), len(d.nodes), errs))
	}
	return merge(views, d.quorum()), nil
}

// view is what one node knows of a name.
type view struct {
	holder  string // what the lock key holds
	left    time.Duration
	counter fencelock.Token
	waiters []string
}

func viewOf(res redisnode.Result) (view, error) {
	if res.Err != nil {
		return view{}, res.Err
	}
	f, err := res.Strings()
	if err != nil || len(f) != 4 {
		return view{}, fmt.Errorf("unexpected reply %v", res.Value)
	}
	left, _ := strconv.ParseInt(f[1], 10, 64)
	counter, _ := strconv.ParseInt(f[2], 10, 64)
	return view{
		holder:  f[0],
		left:    max(time.Duration(left)*time.Millisecond, 0),
		counter: fencelock.Token(counter),
		waiters: strings.Fields(f[3]),
	}, nil
}

func merge(views []view, quorum int) fencelock.Status {
	var s fencelock.Status
	lefts := make(map[string][]time.Duration)
	waiters := make(map[string]bool)
	for _, v := range views {
		s.Token = max(s.Token, v.counter)
		if v.holder != "" {
			lefts[v.holder] = append(lefts[v.holder], v.left)
		}
		for _, w := range v.waiters {
			waiters[w] = true
		}
	}
	s.Waiters = len(waiters)
	for holder, left := range lefts {
		if len(left) < quorum {
			continue
		}
		slices.Sort(left)
		s.Held, s.For, s.Token = true, left[len(left)-quorum], 0
		if f := strings.Split(holder, ":"); len(f) == 3 {
			first, _ := strconv.ParseInt(f[1], 10, 64)
			s.Token = fencelock.Token(first)
		}
	}
	return s
}
