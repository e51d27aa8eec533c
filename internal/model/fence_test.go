// Package model checks the fencing token of redlock with Spin: fence.pml is the
// model, docs/redlock-fence.md says what it shows.
package model

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock/internal/testserver"
)

func TestMain(m *testing.M) { testserver.Main(m) }

// All states, and no assertion fails.
func TestTokensRise(t *testing.T) {
	models := map[string]string{
		"two attempts":                     "",
		"three attempts of a single round": "ATTEMPTS=3 ROUNDS=1",
		"a wiped node that stays away, and clocks that are not behind": "WIPED ABSENT CLOCKS MAX=3 SIZE=1",
	}
	if !testing.Short() {
		models["three attempts"] = "ATTEMPTS=3 MAX=3 SIZE=1"
		models["four attempts of a single round"] = "ATTEMPTS=4 ROUNDS=1 SIZE=1"
		models["a wiped node that stays away, and blocks"] = "WIPED ABSENT CLOCKS MAX=3"
	}
	for name, defines := range models {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := build(t, defines, "-O2", "-DMEMLIM=3500")
			s, err := c.search(t)
			require.NoError(t, err)
			if s.violated != "" {
				t.Fatalf("violated: %s\n%s", s.violated, c.trail(t))
			}
			t.Logf("%d states, %s s", s.states, s.seconds)
		})
	}
}

// How pan names the assertions.
const (
	unique  = "granted&"
	inOrder = "(first[p]>top)"
	alone   = "holds[t]"
	reached = "decided+1"
)

// Every rule is needed: without it there is a counterexample, the shortest of
// which is logged.
func TestBrokenRulesAreFound(t *testing.T) {
	for name, c := range map[string]struct{ defines, violated string }{
		"a node accepts what is equal to its counter":                                  {"LOOSE", unique},
		"a node counts only the first token of a block":                                {"BOTTOM", unique},
		"a minority is enough":                                                         {"MINORITY", unique},
		"accepts of both rounds are counted":                                           {"BOTH", unique},
		"a node forgets its counter":                                                   {"WIPED", unique},
		"a node forgets its counter and stays away, but a clock is behind":             {"WIPED ABSENT", unique},
		"a node forgets its counter while attempts are on their way, clocks are right": {"WIPED CLOCKS", unique},
		"a node does not look at the lock":                                             {"UNLOCKED", alone},
		// No rule of ours, but what the token does not promise.
		"attempts that overlap are granted in the order of their tokens, whatever clocks do": {"STRICT", inOrder},
		// And not for want of grants.
		"not all attempts are granted": {"REACHED", reached},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checker := build(t, c.defines, "-DBFS", "-DMEMLIM=3500")
			s, err := checker.search(t)
			require.NoError(t, err)
			require.Contains(t, s.violated, c.violated, "of %d states", s.states)
			t.Logf("after %d states: %s\n%s", s.states, s.violated, checker.trail(t))
		})
	}
}
