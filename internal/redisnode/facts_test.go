package redisnode

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock/internal/testserver"
)

func TestFacts(t *testing.T) {
	s := testserver.StartRedis(t, "--maxmemory-policy", "allkeys-lru")
	for _, protocol := range []int{2, 3} {
		n := open(t, dial(t, s.Addr(), func(o *redis.Options) { o.Protocol = protocol }))
		s.Do("ACL", "SETUSER", "default", "+@all")
		require.Equal(t, "allkeys-lru", n.Policy(long(t)))
		require.Equal(t, s.Info("server")["run_id"], n.RunID(long(t)))
		require.Equal(t, s.Addr(), n.Addr())

		s.Do("ACL", "SETUSER", "default", "-info")
		require.Equal(t, "allkeys-lru", n.Policy(long(t)), "CONFIG knows it too")
		require.Empty(t, n.RunID(long(t)))
		s.Do("ACL", "SETUSER", "default", "-config")
		require.Empty(t, n.Policy(long(t)), "a managed server tells neither")
	}
	require.Empty(t, open(t, dial(t, s.Addr())).Policy(doneContext()))
}
