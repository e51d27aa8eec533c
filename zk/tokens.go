package zk

import (
	"context"
	"errors"
	"fmt"

	gozk "github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

// Tokens is a fencelock.TokenSource: each token is made of the zxid of a write,
// on the scale of a Locker's tokens. It is safe for concurrent use.
type Tokens struct{ records }

// NewTokens returns a source on client. The options with a meaning here are
// fencelock.Prefix and ACL; others are refused.
func NewTokens(client Client, opts ...fencelock.Option) (*Tokens, error) {
	r, err := newRecords("NewTokens", client, opts)
	if err != nil {
		return nil, err
	}
	return &Tokens{r}, nil
}

// Next returns a token greater than all that any source on this ensemble has
// returned before, for any name.
func (t *Tokens) Next(ctx context.Context, name string) (fencelock.Token, error) {
	if err := lease.CheckName(name); err != nil {
		return 0, err
	}
	for path := t.tree.tokens(); ; {
		stat, err := race(ctx, func() (*gozk.Stat, error) { return t.client.Set(path, nil, -1) })
		if errors.Is(err, gozk.ErrNoNode) {
			if err = t.create(ctx, path, ""); err == nil {
				continue
			}
		}
		var token fencelock.Token
		if err == nil {
			token, err = tokenOf(stat.Mzxid)
		}
		if err != nil {
			return 0, fmt.Errorf("fencelock: next token of %q: %w", name, err)
		}
		return token, nil
	}
}
