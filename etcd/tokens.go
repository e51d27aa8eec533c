package etcd

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

// Tokens is a fencelock.TokenSource: each token is made of the revision of a
// write, on the scale of a Locker's tokens. It is safe for concurrent use.
type Tokens struct{ records }

// NewTokens returns a source on client, which it neither closes nor changes. The
// option with a meaning here is fencelock.Prefix; others are refused.
func NewTokens(client *clientv3.Client, opts ...fencelock.Option) (*Tokens, error) {
	r, err := newRecords("NewTokens", client, opts)
	if err != nil {
		return nil, err
	}
	return &Tokens{r}, nil
}

// Next returns a token greater than all that any source on this cluster has
// returned before, for any name.
func (t *Tokens) Next(ctx context.Context, name string) (fencelock.Token, error) {
	if err := lease.CheckName(name); err != nil {
		return 0, err
	}
	resp, err := t.client.Put(ctx, sibling(t.prefix, "tokens"), "")
	var token fencelock.Token
	if err == nil {
		token, err = tokenOf(resp.Header.Revision) // of a write it is its own
	}
	if err != nil {
		return 0, fmt.Errorf("fencelock: next token of %q: %w", name, err)
	}
	return token, nil
}
