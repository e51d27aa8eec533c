package redisnode

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Policy returns the server's maxmemory-policy, such as "noeviction", or "" if
// the server does not tell: managed servers refuse INFO and CONFIG.
func (n *Node) Policy(ctx context.Context) string {
	if policy := n.info(ctx, "memory", "maxmemory_policy"); policy != "" {
		return policy
	}
	v, err := n.ask(ctx, "config", "get", "maxmemory-policy")
	if err != nil {
		return ""
	}
	switch v := v.(type) { // RESP2 answers with an array, RESP3 with a map
	case map[any]any:
		policy, _ := v["maxmemory-policy"].(string)
		return policy
	case []any:
		if len(v) == 2 {
			policy, _ := v[1].(string)
			return policy
		}
	}
	return ""
}

// RunID returns the server's run_id, or "" if the server does not tell.
func (n *Node) RunID(ctx context.Context) string { return n.info(ctx, "server", "run_id") }

// Addr returns the address the client was made with, or "" if it has several.
func (n *Node) Addr() string {
	if c, ok := n.client.(*redis.Client); ok {
		return c.Options().Addr
	}
	return ""
}

func (n *Node) info(ctx context.Context, section, field string) string {
	v, err := n.ask(ctx, "info", section)
	text, ok := v.(string)
	if err != nil || !ok {
		return ""
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// ask runs one command and returns when ctx ends.
func (n *Node) ask(ctx context.Context, args ...any) (any, error) {
	cmd := redis.NewCmd(ctx, args...)
	done := make(chan error, 1)
	n.Go(func() { done <- n.client.Process(context.WithoutCancel(ctx), cmd) })
	select {
	case err := <-done:
		return cmd.Val(), err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
