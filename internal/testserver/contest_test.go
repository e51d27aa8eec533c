package testserver

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The check itself must be able to fail.
func TestContestSeesWhatIsWrong(t *testing.T) {
	good := []tenure{{"a", 1, 10, 20}, {"b", 1, 15, 16}, {"a", 2, 20, 30}}
	require.Empty(t, wrongs(slices.Clone(good)))
	for _, bad := range []tenure{{"a", 2, 31, 40}, {"a", 9, 15, 18}, {"a", 9, 29, 31}} {
		require.NotEmpty(t, wrongs(append(slices.Clone(good), bad)), bad)
	}
}
