package zk_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/zk"
)

const anID = "0123456789abcdef0123456789abcdef"

func child(n int32) string { return fmt.Sprintf("_c_%s-lock-%010d", anID, n) }

// Z1
func TestOrderGoesOnWhereTheCounterWraps(t *testing.T) {
	for _, start := range []int32{0, math.MaxInt32 - 3, -1, math.MinInt32} {
		var inOrder []string
		for i := range int32(7) {
			inOrder = append(inOrder, child(start+i))
		}
		shuffled := slices.Clone(inOrder)
		rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		first, n := zk.Front(shuffled)
		require.Equal(t, inOrder[0], first)
		require.Equal(t, 7, n)
		require.Empty(t, zk.Ahead(shuffled, inOrder[0]))
		for i := 1; i < len(inOrder); i++ {
			require.Equal(t, inOrder[i-1], zk.Ahead(shuffled, inOrder[i]))
		}
	}
}

// The last change stands for a creation while nobody is behind, and where the server
// notes it.
func TestChangeThatStandsForACreation(t *testing.T) {
	const last = 77
	for _, own := range []int32{0, 5, math.MaxInt32 - 1} {
		require.EqualValues(t, last, zk.ViewToken([]string{child(own), "foreign"}, last, child(own)))
		require.EqualValues(t, last, zk.ViewToken([]string{child(own), child(own - 1)}, last, child(own)))
		require.Zero(t, zk.ViewToken([]string{child(own), child(own + 1)}, last, child(own)), "somebody is behind")
		require.Zero(t, zk.ViewToken([]string{child(own - 1)}, last, child(own)), "seen before the creation")
	}
	tie := strings.Replace(child(5), "0", "1", 1)
	require.Zero(t, zk.ViewToken([]string{child(5), tie}, last, child(5)))
	for _, own := range []int32{math.MaxInt32, math.MinInt32, -1} {
		require.Zero(t, zk.ViewToken([]string{child(own)}, last, child(own)), "not noted")
	}
}

// Z2
func TestForeignChildrenAreNotInTheQueue(t *testing.T) {
	foreign := []string{
		"", "x", "_c_", "lock-0000000001", "_c_" + anID, "_c_" + anID + "-lock-", "_c_" + anID + "-lock-x",
		"_c_" + anID + "-read-0000000001", "_c_" + strings.ToUpper(anID) + "-lock-0000000001", "_c_" + anID + "-lock-99999999999",
		"_c_12345678-1234-1234-1234-123456789abc-lock-0000000001",
	}
	first, n := zk.Front(append(foreign, child(5)))
	require.Equal(t, child(5), first)
	require.Equal(t, 1, n)
	require.Empty(t, zk.Ahead(append(foreign, child(5)), child(5)))
}

func TestElementsDiffer(t *testing.T) {
	seen := make(map[string]string)
	texts := []string{
		"", ".", "..", "...", "_", "__", "_fence", "a_b", "zookeeper", "a", "A", "%61", "a/b", "a%2Fb", "a//b", "/", "\x00", "a\x00b",
		"ä", "\xff", "%", "%~", strings.Repeat("n", 200), strings.Repeat("n", 201), strings.Repeat("n", 200) + "m",
		strings.Repeat("/", 67), strings.Repeat("/", 68),
	}
	for range 10_000 {
		b := make([]byte, rand.N(6))
		for i := range b {
			b[i] = "/%._2Fa\x00"[rand.N(8)]
		}
		texts = append(texts, string(b))
	}
	for _, text := range texts {
		e := zk.Element(text)
		require.Regexp(t, `^[-A-Za-z0-9.:@+=,%~_]+$`, e)
		require.NotContains(t, []string{".", "..", "zookeeper"}, e)
		require.False(t, strings.HasPrefix(e, "_"))
		require.LessOrEqual(t, len(e), 200)
		if before, ok := seen[e]; ok {
			require.Equal(t, before, text, "two texts, one element: %s", e)
		}
		seen[e] = text
	}
	require.Equal(t, "/fencelock/invoices%2F2026-11", zk.Parent("fencelock/", "invoices/2026-11"))
	require.NotEqual(t, zk.Parent("a/", "b"), zk.Parent("a", "/b"))
	require.NotEqual(t, zk.Parent("/a/", "b"), zk.Parent("a/", "b"))
}

func TestBlockOfTokens(t *testing.T) {
	block := func(zxid int64, min fencelock.Token, n int) [2]fencelock.Token {
		first, last, err := zk.Block(zxid, min, n)
		require.NoError(t, err)
		return [2]fencelock.Token{first, last}
	}
	type tokens = [2]fencelock.Token
	require.Equal(t, tokens{4096, 8191}, block(1, 0, 10_000))
	require.Equal(t, tokens{4096, 4096}, block(1, 0, 1))
	require.Equal(t, tokens{8192, 8201}, block(2, 8191, 10))
	require.Equal(t, tokens{8191, 8191}, block(1, 8190, 10))
	_, _, err := zk.Block(1, 8191, 1)
	require.ErrorIs(t, err, fencelock.ErrRegressed)
	last := int64(1<<51 - 1) // the last change of epoch 2^19-1
	require.Equal(t, tokens{math.MaxInt64 - 4095, math.MaxInt64}, block(last, 0, 4096))
	_, _, err = zk.Block(last+1, 0, 1)
	require.ErrorContains(t, err, "epoch")
}
