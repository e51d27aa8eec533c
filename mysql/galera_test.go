package mysql_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
)

// The nodes of a cluster do not know of each other's session locks.
func TestGaleraIsRefusedBySessionStyles(t *testing.T) {
	s := testserver.StartMariaDB(t, "--wsrep-on=ON", "--wsrep-provider=none", "--binlog-format=ROW", "--wsrep-cluster-address=gcomm://")
	migrate(t, s)
	for _, make := range sessionStyles {
		l := open(t, make, dial(t, s.DSN()))
		_, err := l.TryAcquire(long(t), "n")
		require.ErrorContains(t, err, "Galera")
		require.ErrorContains(t, err, "NewLease", "and what to do")
		require.NotErrorIs(t, err, fencelock.ErrHeld)
	}
	cycle(t, open(t, styles["lease"], dial(t, s.DSN())), "n")
}
