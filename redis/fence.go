package redis

import (
	"context"
	_ "embed"
	"encoding"
	"fmt"
	"strconv"
	"strings"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/redisnode"
)

//go:embed fence.lua
var fenceLua string

var (
	admitScript = fenced(`return 'OK'`)
	setScript   = fenced(`return redis.call('SET', KEYS[1], ARGV[1])`)
)

// fenced returns a script that runs text, with its own KEYS and ARGV, if the
// fence admits the token. What the text does may not bear repetition.
func fenced(text string) *redisnode.Script {
	return redisnode.NewScript(fenceLua +
		"local function write(KEYS, ARGV)\n" + text + "\nend\n" +
		"return mark(write(tail(KEYS, 1), tail(ARGV, 2)))\n").Once()
}

// Fence guards data in Redis; it implements fencelock.Fence. It is safe for
// concurrent use, and independent of the backend that the tokens come from.
//
// A fence keeps two tokens for a name: the greatest that was admitted and the
// greatest that has written, in one key without a TTL, as long-lived as the data.
// That server must not evict keys and must not lose acknowledged writes: a fence
// is as durable as the data it guards.
//
// In a Cluster the fence's key is in the slot of its name, and the data's key
// must be too: name the fence after the data's hash tag, as name "order:7" for
// key "{order:7}:total".
type Fence struct {
	node   *redisnode.Node
	prefix string
	mode   string
}

// NewFence returns a fence on client. The only option with a meaning here is
// fencelock.Prefix, the same as the Locker's; others are refused.
func NewFence(client Client, opts ...fencelock.Option) (*Fence, error) {
	node, prefix, err := prefixed("NewFence", client, opts)
	if err != nil {
		return nil, err
	}
	return &Fence{node, prefix, "write"}, nil
}

// Strict returns the same fence with strict writes: each token may write once.
// Use it where a write must not be repeated, as for an increment.
func (f *Fence) Strict() *Fence { return &Fence{f.node, f.prefix, "strict"} }

// Admit claims name for t; see fencelock.Fence.
func (f *Fence) Admit(ctx context.Context, name string, t fencelock.Token) error {
	_, err := f.run(ctx, admitScript, "claim", name, t, nil, nil)
	return err
}

// Set claims name for t and sets key to value, both or neither. A refusal is a
// *fencelock.StaleError. value is a string, []byte, number, bool or
// encoding.BinaryMarshaler. The key must be neither the name, nor the lock's
// key, nor one that this package keeps.
func (f *Fence) Set(ctx context.Context, name string, t fencelock.Token, key string, value any) error {
	_, err := f.run(ctx, setScript, f.mode, name, t, []string{key}, []any{value})
	return err
}

// Do claims name for t and runs a Lua script of yours, in the same atomic step
// and only if t is admitted. The script sees its own KEYS and ARGV. Do
// returns what it returns, as go-redis does: nothing is redis.Nil. If the script
// fails in the middle, what it wrote before stays, as always in Redis, and t
// counts as admitted but not as having written.
func (f *Fence) Do(ctx context.Context, name string, t fencelock.Token, script string, keys []string, args ...any) (any, error) {
	return f.run(ctx, fenced(script), f.mode, name, t, keys, args)
}

func (f *Fence) run(
	ctx context.Context, s *redisnode.Script, mode, name string, t fencelock.Token, keys []string, args []any,
) (any, error) {
	if err := lease.CheckName(name); err != nil {
		return nil, err
	}
	key := redisnode.Sibling(name, fenceSuffix+f.prefix)
	if err := f.check(name, key, t, keys); err != nil {
		return nil, fmt.Errorf("fencelock: fence %q: %w", name, err)
	}
	words := []string{t.String(), mode}
	for _, a := range args {
		w, err := text(a)
		if err != nil {
			return nil, fmt.Errorf("fencelock: fence %q: %w", name, err)
		}
		words = append(words, w)
	}
	res, err := f.node.Run(ctx, s, append([]string{key}, keys...), words...)
	if err == nil {
		return res.Value, nil
	}
	if want, ok := strings.CutPrefix(err.Error(), "FENCED "); ok {
		return nil, &fencelock.StaleError{Name: name, Have: t, Want: token(want)}
	}
	return nil, fmt.Errorf("fencelock: fence %q: %w", name, err)
}

func (f *Fence) check(name, fence string, t fencelock.Token, keys []string) error {
	if t < 1 {
		return fmt.Errorf("%d is no token: tokens are positive", t)
	}
	lock := f.prefix + name
	for _, k := range keys {
		switch {
		case k == lock || k == name:
			return fmt.Errorf("the data's key %q is the lock's", k)
		case k == fence || redisnode.IsSibling(k, reserved):
			return fmt.Errorf("the data's key %q is one of fencelock's own", k)
		case f.node.Cluster() && redisnode.Slot(k) != redisnode.Slot(fence):
			return fmt.Errorf("the data's key %q is not in the fence's slot: give it the hash tag of the name, as in {%s}:data", k, name)
		}
	}
	return nil
}

// text turns an argument into what go-redis would send.
func text(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case []byte:
		return string(v), nil
	case bool:
		if v {
			return "1", nil
		}
		return "0", nil
	case float32:
		return strconv.FormatFloat(float64(v), 'f', -1, 32), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case encoding.BinaryMarshaler:
		b, err := v.MarshalBinary()
		return string(b), err
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, fencelock.Token:
		return fmt.Sprint(v), nil
	}
	return "", fmt.Errorf("a value of type %T cannot be sent", v)
}

// prefixed makes the node and finds the prefix of a Fence or a token source.
func prefixed(what string, client Client, opts []fencelock.Option) (*redisnode.Node, string, error) {
	node, err := redisnode.New(client)
	if err != nil {
		return nil, "", fmt.Errorf("fencelock: redis.%s: %w", what, err)
	}
	set, err := lease.PrefixOf("redis."+what, opts)
	if err != nil {
		return nil, "", err
	}
	return node, set.Prefix, nil
}
