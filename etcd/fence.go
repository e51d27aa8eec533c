package etcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

// Fence guards data in etcd; it implements fencelock.Fence. It is safe for
// concurrent use, and independent of the backend that the tokens come from.
//
// It keeps, in two keys for each name, the greatest token that was admitted and
// the greatest that has written. They are as long-lived as the data and never
// removed.
type Fence struct {
	records
	strict bool
}

// NewFence returns a fence on client, which it neither closes nor changes. The
// option with a meaning here is fencelock.Prefix, the same as the Locker's; others
// are refused.
func NewFence(client *clientv3.Client, opts ...fencelock.Option) (*Fence, error) {
	r, err := newRecords("NewFence", client, opts)
	if err != nil {
		return nil, err
	}
	return &Fence{records: r}, nil
}

// Strict returns the same fence with strict writes: each token may write once.
// Use it where a write must not be repeated.
func (f *Fence) Strict() *Fence { return &Fence{f.records, true} }

// Admit claims name for t; see fencelock.Fence.
func (f *Fence) Admit(ctx context.Context, name string, t fencelock.Token) error {
	_, err := f.run(ctx, name, t, false)
	return err
}

// Put claims name for t and puts value at key: both or neither. A refusal is a
// *fencelock.StaleError.
func (f *Fence) Put(ctx context.Context, name string, t fencelock.Token, key, value string, opts ...clientv3.OpOption) error {
	_, err := f.run(ctx, name, t, true, clientv3.OpPut(key, value, opts...))
	return err
}

// Txn claims name for t and runs a transaction of yours as etcd does: then if all
// comparisons are true, else otherwise, all in one step and nothing if t is
// refused. The response is that of your transaction.
func (f *Fence) Txn(ctx context.Context, name string, t fencelock.Token, ifs []clientv3.Cmp, thens, elses []clientv3.Op) (*clientv3.TxnResponse, error) {
	resp, err := f.run(ctx, name, t, true, clientv3.OpTxn(ifs, thens, elses))
	if err != nil {
		return nil, err
	}
	yours := resp.Responses[0].GetResponseTxn()
	yours.Header = resp.Header
	return (*clientv3.TxnResponse)(yours), nil
}

func (f *Fence) run(ctx context.Context, name string, t fencelock.Token, write bool, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	if err := lease.CheckName(name); err != nil {
		return nil, err
	}
	resp, err := f.attempt(ctx, name, t, write, ops)
	if err != nil && !errors.Is(err, fencelock.ErrStale) {
		err = fmt.Errorf("fencelock: fence %q: %w", name, err)
	}
	return resp, err
}

// attempt is one trip, but for the first use of a name: a comparison with a key
// that is not there fails, so the keys are made then.
func (f *Fence) attempt(ctx context.Context, name string, t fencelock.Token, write bool, ops []clientv3.Op) (*clientv3.TxnResponse, error) {
	if t < 1 {
		return nil, fmt.Errorf("%d is no token: tokens are positive", t)
	}
	claimed, written := sibling(f.prefix+name, "claimed"), sibling(f.prefix+name, "written")
	guards := []clientv3.Cmp{clientv3.Compare(clientv3.Value(claimed), "<", above(t))}
	ops = append(ops, clientv3.OpPut(claimed, digits(t)))
	if write {
		ops = append(ops, clientv3.OpPut(written, digits(t)))
	}
	if write && f.strict {
		guards = append(guards, clientv3.Compare(clientv3.Value(written), "<", digits(t)))
	}
	for {
		resp, err := f.client.Txn(ctx).If(guards...).Then(ops...).
			Else(clientv3.OpGet(claimed), clientv3.OpGet(written)).Commit()
		if err != nil {
			return nil, err
		}
		if resp.Succeeded {
			return resp, nil
		}
		var have [2]fencelock.Token
		missing := false
		for i, r := range resp.Responses {
			kvs := r.GetResponseRange().Kvs
			if len(kvs) == 0 {
				missing = true
				continue
			}
			if have[i], err = parse(kvs[0].Value); err != nil {
				return nil, fmt.Errorf("the key %s is no fence's: it says %.40q", kvs[0].Key, kvs[0].Value)
			}
		}
		switch {
		case t < have[0]:
			return nil, &fencelock.StaleError{Name: name, Have: t, Want: have[0]}
		case !missing && write && f.strict && t <= have[1]:
			return nil, &fencelock.StaleError{Name: name, Have: t, Want: have[1] + 1}
		case !missing:
			return nil, errors.New("the server compares otherwise than it reads")
		}
		for _, key := range []string{claimed, written} {
			_, err := f.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
				Then(clientv3.OpPut(key, digits(0))).Commit()
			if err != nil {
				return nil, err
			}
		}
	}
}

// Values are compared by their bytes, so all have 20 digits.
func digits(t fencelock.Token) string { return fmt.Sprintf("%020d", t) }

// above is less than all digits of greater tokens, and greater than those of t.
func above(t fencelock.Token) string { return digits(t) + "+" }

func parse(value []byte) (fencelock.Token, error) {
	t, err := strconv.ParseInt(string(value), 10, 64)
	if err == nil && digits(fencelock.Token(t)) != string(value) {
		err = strconv.ErrSyntax
	}
	return fencelock.Token(t), err
}

// records is what fences and token sources have in common.
type records struct {
	client *clientv3.Client
	prefix string
}

func newRecords(what string, client *clientv3.Client, opts []fencelock.Option) (records, error) {
	set, err := lease.PrefixOf("etcd."+what, opts)
	if err == nil && client == nil {
		err = fmt.Errorf("fencelock: etcd.%s: the client is nil", what)
	}
	return records{client, set.Prefix}, err
}
