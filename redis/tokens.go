package redis

import (
	"context"
	"fmt"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/redisnode"
)

// Tokens is a fencelock.TokenSource: a counter per name, as INCR, but never
// below the microseconds of the server's clock, so that it survives the loss of
// the counter. It is safe for concurrent use.
type Tokens struct {
	node   *redisnode.Node
	prefix string
}

// NewTokens returns a source on client. The only option with a meaning here is
// fencelock.Prefix; others are refused. A counter expires 7 days after its last
// use.
func NewTokens(client Client, opts ...fencelock.Option) (*Tokens, error) {
	node, prefix, err := prefixed("NewTokens", client, opts)
	return &Tokens{node, prefix}, err
}

// Next returns a token greater than all that any source on this server, with
// this prefix, has returned for name.
func (t *Tokens) Next(ctx context.Context, name string) (fencelock.Token, error) {
	if err := lease.CheckName(name); err != nil {
		return 0, err
	}
	res, err := t.node.Run(ctx, nextScript, []string{redisnode.Sibling(t.prefix+name, tokenSuffix)}, "")
	var reply []string
	if err == nil {
		reply, err = res.Strings()
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("fencelock: next token of %q: %w", name, err)
	case token(reply[0]) == 0:
		return 0, fmt.Errorf("fencelock: next token of %q: %w: the counter is beyond an int64", name, fencelock.ErrRegressed)
	}
	return token(reply[0]), nil
}
