package zk

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	gozk "github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

// Client is what fences and token sources need of your client: *zk.Conn of
// go-zookeeper is one. It is never closed. Its calls know no ctx; one that ctx has
// left behind ends with its connection and may have its effect until then.
type Client interface {
	Get(path string) ([]byte, *gozk.Stat, error)
	Set(path string, data []byte, version int32) (*gozk.Stat, error)
	Create(path string, data []byte, flags int32, acl []gozk.ACL) (string, error)
	Multi(ops ...any) ([]gozk.MultiResponse, error)
}

// Fence guards data in ZooKeeper; it implements fencelock.Fence. It is safe for
// concurrent use, and independent of the backend that the tokens come from.
//
// It keeps, in one node for each name, the greatest token that was admitted and
// the greatest that has written. Such a node is as long-lived as the data and never
// removed.
type Fence struct {
	records
	strict bool
}

// NewFence returns a fence on client. The options with a meaning here are
// fencelock.Prefix, the same as the Locker's, and ACL; others are refused.
func NewFence(client Client, opts ...fencelock.Option) (*Fence, error) {
	r, err := newRecords("NewFence", client, opts)
	if err != nil {
		return nil, err
	}
	return &Fence{records: r}, nil
}

// Strict returns the same fence with strict writes: each token may write once.
// Use it where a write must not be repeated, as for a sequential node.
func (f *Fence) Strict() *Fence { return &Fence{f.records, true} }

// Admit claims name for t; see fencelock.Fence.
func (f *Fence) Admit(ctx context.Context, name string, t fencelock.Token) error {
	_, err := f.run(ctx, name, t, false, nil)
	return err
}

// Set claims name for t and sets the data of the node at path, whatever its
// version: both or neither. A refusal is a *fencelock.StaleError.
func (f *Fence) Set(ctx context.Context, name string, t fencelock.Token, path string, data []byte) error {
	_, err := f.Multi(ctx, name, t, &gozk.SetDataRequest{Path: path, Data: data, Version: -1})
	return err
}

// Multi claims name for t and makes the changes ops, those of zk.Conn.Multi: all or
// none, and none if t is refused. The results are those of ops.
func (f *Fence) Multi(ctx context.Context, name string, t fencelock.Token, ops ...any) ([]gozk.MultiResponse, error) {
	if len(ops) == 0 {
		return nil, fmt.Errorf("fencelock: fence %q: no changes: to claim only, use Admit", name)
	}
	return f.run(ctx, name, t, true, ops)
}

// record is what a fence's node says.
type record struct{ claimed, written fencelock.Token }

func (f *Fence) run(ctx context.Context, name string, t fencelock.Token, write bool, ops []any) ([]gozk.MultiResponse, error) {
	if err := lease.CheckName(name); err != nil {
		return nil, err
	}
	results, err := f.attempt(ctx, name, t, write, ops)
	if err != nil && !errors.Is(err, fencelock.ErrStale) {
		err = fmt.Errorf("fencelock: fence %q: %w", name, err)
	}
	return results, err
}

func (f *Fence) attempt(ctx context.Context, name string, t fencelock.Token, write bool, ops []any) ([]gozk.MultiResponse, error) {
	if t < 1 {
		return nil, fmt.Errorf("%d is no token: tokens are positive", t)
	}
	for path := f.tree.fence(name); ; {
		r, stat, err := f.read(ctx, path)
		if errors.Is(err, gozk.ErrNoNode) {
			if err := f.create(ctx, path, "0 0"); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		switch {
		case t < r.claimed:
			return nil, &fencelock.StaleError{Name: name, Have: t, Want: r.claimed}
		case write && f.strict && t <= r.written:
			return nil, &fencelock.StaleError{Name: name, Have: t, Want: r.written + 1}
		}
		after := record{t, r.written}
		if write {
			after.written = max(r.written, t)
		}
		// What was read may be out of date: the version decides, at the leader.
		var guard any = &gozk.CheckVersionRequest{Path: path, Version: stat.Version}
		if after != r {
			text := fmt.Sprintf("%d %d", after.claimed, after.written)
			guard = &gozk.SetDataRequest{Path: path, Data: []byte(text), Version: stat.Version}
		}
		results, err := race(ctx, func() ([]gozk.MultiResponse, error) {
			return f.client.Multi(append([]any{guard}, ops...)...)
		})
		if len(results) > 0 {
			if errors.Is(results[0].Error, gozk.ErrBadVersion) {
				continue
			}
			results = results[1:]
		}
		return results, err
	}
}

func (f *Fence) read(ctx context.Context, path string) (r record, stat *gozk.Stat, err error) {
	type node struct {
		data []byte
		stat *gozk.Stat
	}
	n, err := race(ctx, func() (n node, err error) {
		n.data, n.stat, err = f.client.Get(path)
		return n, err
	})
	if err != nil {
		return r, nil, err
	}
	claimed, written, ok := strings.Cut(string(n.data), " ")
	c, err1 := strconv.ParseInt(claimed, 10, 64)
	w, err2 := strconv.ParseInt(written, 10, 64)
	if !ok || err1 != nil || err2 != nil {
		return r, nil, fmt.Errorf("the node %s is no fence's: it says %.40q", path, n.data)
	}
	return record{fencelock.Token(c), fencelock.Token(w)}, n.stat, nil
}

// records is what fences and token sources have in common.
type records struct {
	client Client
	tree   tree
	acl    []gozk.ACL
}

func newRecords(what string, client Client, opts []fencelock.Option) (r records, err error) {
	set, err := lease.PrefixOf("zk."+what, opts, aclKey{})
	if err != nil {
		return r, err
	}
	r = records{client: client, tree: newTree(set.Prefix)}
	if c, ok := client.(*gozk.Conn); client == nil || ok && c == nil {
		err = errors.New("the client is nil")
	} else {
		r.acl, err = aclOf(set)
	}
	if err != nil {
		return r, fmt.Errorf("fencelock: zk.%s: %w", what, err)
	}
	return r, nil
}

// create makes a lasting node, and those above it.
func (r records) create(ctx context.Context, path, data string) error {
	for {
		_, err := race(ctx, func() (string, error) {
			return r.client.Create(path, []byte(data), gozk.FlagPersistent, r.acl)
		})
		switch {
		case errors.Is(err, gozk.ErrNodeExists):
			return nil
		case !errors.Is(err, gozk.ErrNoNode):
			return err
		}
		if err := r.create(ctx, parentOf(path), ""); err != nil {
			return err
		}
	}
}

// race returns f's answer, or at once when ctx ends.
func race[T any](ctx context.Context, f func() (T, error)) (v T, err error) {
	if err := ctx.Err(); err != nil {
		return v, err
	}
	type result struct {
		v   T
		err error
	}
	answer := make(chan result, 1)
	go func() {
		v, err := f()
		answer <- result{v, err}
	}()
	select {
	case r := <-answer:
		return r.v, r.err
	case <-ctx.Done():
		return v, ctx.Err()
	}
}
