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
	return l.eng.Status(ctx, name)
}

// Break ends a hold from outside, at a majority of the nodes at least; see
// fencelock.Breaker. With Tokens the hold's own token is not known to the nodes:
// give the one that Status shows.
func (l *Locker) Break(ctx context.Context, name string, t fencelock.Token) error {
	return l.eng.Break(ctx, name, t)
}

// Status implements lease.Inspector.
func (d *driver) Status(ctx context.Context, key string) (fencelock.Status, error) {
	views, err := d.see(ctx, key)
	if err != nil {
		return fencelock.Status{}, err
	}
	return merge(views, d.quorum()), nil
}

// Break implements lease.Inspector. Attempts are compared by the nodes; a minority
// that could not be seen, or does not answer, can lead no majority.
func (d *driver) Break(ctx context.Context, key string, first fencelock.Token) error {
	views, err := d.see(ctx, key)
	if err != nil {
		return err
	}
	for _, v := range views {
		attempt, b, ok := ownerOf(v.holder)
		if !ok || b.first != first {
			continue
		}
		t := d.bury(ctx, lease.Request{Key: key, Attempt: attempt, TTL: max(v.left, d.ttl)}, b.last, true)
		if t.answered() < d.quorum() {
			return t.err(ctx)
		}
		return nil
	}
	return nil
}

// ownerOf reads what a lock key holds.
func ownerOf(value string) (attempt string, b block, ok bool) {
	f := strings.Split(value, ":")
	if len(f) != 3 {
		return "", b, false
	}
	first, err := strconv.ParseInt(f[1], 10, 64)
	last, err2 := strconv.ParseInt(f[2], 10, 64)
	return f[0], block{fencelock.Token(first), fencelock.Token(last)}, err == nil && err2 == nil
}

// see asks all nodes what they know, and returns what a majority at least has
// answered.
func (d *driver) see(ctx context.Context, key string) ([]view, error) {
	call := redisnode.Call{Script: statusScript, Keys: keysOf(key)}
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
			return nil, ctx.Err()
		}
	}
	if len(views) < d.quorum() {
		return nil, noQuorum(len(views), len(d.nodes), errs)
	}
	return views, nil
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
		if _, b, ok := ownerOf(holder); ok {
			s.Token, s.Since = b.first, time.UnixMicro(int64(b.first))
		}
	}
	return s
}
