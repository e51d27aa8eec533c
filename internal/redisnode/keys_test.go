package redisnode

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock/internal/testserver"
)

var odd = []string{
	"a", "{", "}", "{}", "}{", "{}{a}", "{a}", "{a}b", "x{a}b{c}", "{{a}}", "a}b{c}d", "{a", "a}", "\x00", "{\x00}",
	"🔒", "{🔒}x", "{}🔒", "fencelock/{}", "fencelock/}{", "%", "{%}", "12", "{12}", "a b",
}

func TestSiblingsShareTheSlot(t *testing.T) {
	s := testserver.StartRedis(t, "--cluster-enabled", "yes")
	seen := make(map[string]string)
	for _, k := range odd {
		require.EqualValues(t, s.Do("CLUSTER", "KEYSLOT", k), Slot(k), "%q", k)
		for _, suffix := range []string{":lock:", ":fence:"} {
			sib := Sibling(k, suffix)
			require.Equal(t, Slot(k), Slot(sib), "%q and %q", k, sib)
			require.EqualValues(t, s.Do("CLUSTER", "KEYSLOT", k), s.Do("CLUSTER", "KEYSLOT", sib), "%q and %q", k, sib)
			require.True(t, IsSibling(sib, suffix), "%q", sib)
			require.False(t, IsSibling(k, suffix), "%q", k)
			require.NotContains(t, seen, sib, "of %q", k)
			seen[sib] = k
		}
	}
}

func BenchmarkSiblingOfClosingBrace(b *testing.B) {
	for i := range b.N {
		Sibling(fmt.Sprint(i, "}"), ":lock:")
	}
}
