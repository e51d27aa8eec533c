package testserver

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStandbyFollowsUntilItIsCutOffAndPromoted(t *testing.T) {
	p := PostgresPair(t)
	p.Primary.Exec("CREATE TABLE t (i int); INSERT INTO t VALUES (1)")
	p.WaitSynced()
	require.Equal(t, []string{"1"}, p.Standby.Strings("SELECT i FROM t"))
	_, err := p.Standby.Try("INSERT INTO t VALUES (2)")
	require.ErrorContains(t, err, "read-only")

	p.Link.Cut()
	p.Primary.Exec("INSERT INTO t VALUES (3)")
	p.Promote()
	require.Equal(t, []string{"1"}, p.Standby.Strings("SELECT i FROM t"), "the cut-off write is lost")
	p.Standby.Exec("INSERT INTO t VALUES (4)")
	require.Equal(t, []string{"1", "3"}, p.Primary.Strings("SELECT i FROM t"))

	p.Standby.Kill()
	p.Standby.Restart()
	require.Equal(t, []string{"1", "4"}, p.Standby.Strings("SELECT i FROM t"), "it stays a primary")
}

func TestStandbyFollowsAgainAfterHeal(t *testing.T) {
	p := PostgresPair(t)
	p.Link.Cut()
	p.Primary.Exec("CREATE TABLE t (i int)")
	_, err := p.Standby.Try("SELECT FROM t")
	require.ErrorContains(t, err, "does not exist")
	p.Link.Heal()
	p.WaitSynced()
	require.Empty(t, p.Standby.Strings("SELECT FROM t"))

	p.Primary.Kill()
	p.Primary.Restart()
	p.Primary.Exec("INSERT INTO t VALUES (1)")
	p.WaitSynced()
	require.Equal(t, []string{"1"}, p.Standby.Strings("SELECT i FROM t"))
}
