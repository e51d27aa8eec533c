package torture

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// edit replaces what occurs once in a file of the repository.
type edit struct{ file, old, with string }

// sabotage is a guard switched off, and the check that must see it.
type sabotage struct {
	name    string
	backend string
	check   string
	edits   []edit
}

// sabotages are in none of what is shipped: the compiler gets them as an overlay.
var sabotages = []sabotage{
	{
		"the register has no fence", "redis", "the register is linearizable",
		[]edit{{"internal/torture/register_test.go", "return have >= greatest", "return true"}},
	},
	{
		"a release deletes whoever's lock it finds", "redis", "one holder",
		[]edit{{"redis/release_hot.lua", "local mine = value and string.sub(value, 1, #me + 1) == me .. ':'", "local mine = value"}},
	},
	{
		"a block of tokens reaches back over the last one", "redis", "tokens are unique",
		[]edit{
			{"redis/acquire_hot.lua", "math.max(counter + 1, us - n + 1)", "us - n + 1"},
			{"redis/grant.lua", "if less(first, floor) then first = floor end", "first = floor"},
		},
	},
	{
		"a hold counts from the reply", "redis", "one holder",
		[]edit{
			{"redis/driver.go", "since := res.Sent.Add(", "since := time.Now().Add("},
			{"redis/driver.go", "g.Since, g.TTL = res.Sent, ", "g.Since, g.TTL = time.Now(), "},
		},
	},
	{
		"a node accepts what is equal to its counter", "redlock", "tokens are unique",
		[]edit{
			{"redlock/acquire.lua", "elseif not less(counter, first) then", "elseif less(first, counter) then"},
			{"redlock/block.go", "	n := fencelock.Token(max(size, 1)) - 1\n", "	n, now := fencelock.Token(0), (now/1e7+1)*1e7 // so that proposals meet\n"},
		},
	},
	{
		"an attempt of unknown result is not cleaned up", "etcd", "all names can be had again",
		[]edit{{"internal/lease/cleanup.go", "return l.driver.Undo(ctx, r) })", "return nil })"}},
	},
}

// race is how this test was built, so that most of it need not be built anew.
func race() string {
	info, _ := debug.ReadBuildInfo()
	on := info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
	return fmt.Sprintf("-race=%v", on)
}

// The run must be able to see what it is for.
func TestSabotageIsSeen(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	for i, s := range sabotages {
		if testing.Short() && i >= 1 {
			t.Log("the others take a while: make torture-mustfail")
			break
		}
		t.Run(s.name, func(t *testing.T) {
			dir := t.TempDir()
			changed := make(map[string]string)
			for i, e := range s.edits {
				path := filepath.Join(root, filepath.FromSlash(e.file))
				now := path
				if changed[path] != "" {
					now = changed[path]
				}
				text, err := os.ReadFile(now)
				require.NoError(t, err)
				require.Equal(t, 1, strings.Count(string(text), e.old), "%s has changed: bring this table up to date", e.file)
				changed[path] = filepath.Join(dir, strings.Repeat("x", i+1)+filepath.Base(path))
				require.NoError(t, os.WriteFile(changed[path], []byte(strings.Replace(string(text), e.old, e.with, 1)), 0o600))
			}
			overlay, err := json.Marshal(map[string]any{"Replace": changed})
			require.NoError(t, err)
			file, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "torture.test")
			require.NoError(t, os.WriteFile(file, overlay, 0o600))
			out, err := exec.CommandContext(t.Context(), "go", "test", "-c", race(), "-overlay", file, "-o", binary, ".").CombinedOutput()
			require.NoError(t, err, "%s", out)

			// What happens to whom is a matter of luck, too, on a busy machine above all.
			for seed := 1; seed <= 5; seed++ {
				run := exec.CommandContext(t.Context(), binary, "-test.run=TestTorture", "-backend="+s.backend, "-duration="+lasts.String(), fmt.Sprint("-seed=", seed))
				run.Env = append(os.Environ(), "TMPDIR="+dir) // what it keeps is of no further use
				if out, err = run.CombinedOutput(); err != nil {
					break
				}
				t.Logf("not seen with seed %d", seed)
			}
			require.Error(t, err, "nothing was seen:\n%s", out)
			require.Contains(t, string(out), s.check+": ", "something else was seen")
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, s.check+": ") {
					t.Log(strings.TrimSpace(line))
					break
				}
			}
		})
	}
}
