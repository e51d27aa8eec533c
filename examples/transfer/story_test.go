package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock/examples/internal/storytest"
	"github.com/fencelock/fencelock/internal/testserver"
)

// Without a lock money is lost, under a lease whose holder is stopped, too; the
// fence and TxLock keep it.
func TestFenceAndTxLockKeepTheMoney(t *testing.T) {
	testserver.PostgresProgram(t)
	rows, status := storytest.Tell[row](t, storytest.Build(t, ""), "-d", "4s", "-ttl", "300ms")
	require.Len(t, rows, len(arms))
	for i, r := range rows {
		require.Equal(t, arms[i].name, r.Arm)
		require.Empty(t, r.Check())
		require.Equal(t, !arms[i].safe, r.Off > 0)
	}
	require.Zero(t, status)
}

// If the fence is never asked the money is lost again: it is the fence that keeps
// it and nothing else.
func TestMoneyIsLostAgainWhenTheFenceIsNotAsked(t *testing.T) {
	testserver.PostgresProgram(t)
	rows, status := storytest.Tell[row](t, storytest.Build(t, "openfence"), "-d", "4s", "-ttl", "300ms", "-arm", "lease and fence")
	require.Len(t, rows, 1)
	require.Positive(t, rows[0].Off)
	require.Zero(t, rows[0].Refused)
	require.NotEmpty(t, rows[0].Check())
	require.Equal(t, 1, status, "the program must say that this is wrong")
}

func TestCheckFindsWhatIsWrong(t *testing.T) {
	good := map[string]row{
		"no lock":         {Transfers: 9, Total: 4000, Expected: 4000, Off: 2},
		"lease":           {Transfers: 9, Total: 3990, Expected: 4000, Off: 1},
		"lease and fence": {Transfers: 9, Total: 4000, Expected: 4000, Refused: 1},
		"TxLock":          {Transfers: 9, Total: 4000, Expected: 4000},
	}
	for name, r := range good {
		r.Arm = name
		require.Empty(t, r.Check())
		r.Transfers = 0
		require.Len(t, r.Check(), 1, "%s: nothing transferred", name)
	}
	for name, spoil := range map[string]func(*row){
		"no lock":         func(r *row) { r.Off = 0 },
		"lease":           func(r *row) { r.Off = 0 },
		"lease and fence": func(r *row) { r.Refused = 0 },
		"TxLock":          func(r *row) { r.Disorder = 1 },
	} {
		r := good[name]
		r.Arm = name
		spoil(&r)
		require.Len(t, r.Check(), 1, name)
	}
	for _, name := range []string{"lease and fence", "TxLock"} {
		r := good[name]
		r.Arm, r.Total = name, 3999
		require.Len(t, r.Check(), 1, name)
		r.Total, r.Off = 4000, 2
		require.Len(t, r.Check(), 1, name)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for _, args := range [][]string{{"-workers", "1"}, {"-accounts", "1"}, {"-d", "1s", "-ttl", "1s"}, {"-arm", "none"}, {"more"}} {
		_, _, err := parse(args, t.Output())
		require.Error(t, err, "%v", args)
	}
	_, _, err := parse(nil, t.Output())
	require.NoError(t, err)
}
