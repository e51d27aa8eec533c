package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock/examples/internal/storytest"
	"github.com/fencelock/fencelock/internal/testserver"
)

// A killed worker's job is done by another. A stopped worker's job, too, and then
// by itself once more, unless there is a fence.
func TestEachJobIsDoneExactlyOnce(t *testing.T) {
	testserver.PostgresProgram(t)
	for style := range styles {
		t.Run(style, func(t *testing.T) {
			rows, status := storytest.Tell[row](t, storytest.Build(t, ""), "-style", style, "-jobs", "60")
			require.Len(t, rows, len(fences))
			for _, r := range rows {
				require.Empty(t, r.Check())
				require.Equal(t, 60, r.Done)
			}
			require.Positive(t, rows[0].Twice)
			require.Zero(t, rows[1].Twice)
			require.Zero(t, status)
		})
	}
}

// If the fence is never asked a job is done twice again: it is the token in the
// row that prevents it and nothing else.
func TestAJobIsDoneTwiceAgainWhenTheFenceIsNotAsked(t *testing.T) {
	testserver.PostgresProgram(t)
	rows, status := storytest.Tell[row](t, storytest.Build(t, "openfence"), "-jobs", "60")
	require.Len(t, rows, len(fences))
	require.Positive(t, rows[1].Twice)
	require.NotEmpty(t, rows[1].Check())
	require.Equal(t, 1, status, "the program must say that this is wrong")
}

func TestCheckFindsWhatIsWrong(t *testing.T) {
	none := row{Fence: "none", Jobs: 9, Done: 9, Twice: 1, TakenOver: 2}
	fenced := row{Fence: "row", Jobs: 9, Done: 9, Refused: 1, TakenOver: 2}
	require.Empty(t, none.Check())
	require.Empty(t, fenced.Check())
	for name, wrong := range map[string]row{
		"a job not done":     {Fence: "row", Jobs: 9, Done: 8, Refused: 1, TakenOver: 2},
		"done twice":         {Fence: "row", Jobs: 9, Done: 9, Twice: 1, Refused: 1, TakenOver: 2},
		"nothing refused":    {Fence: "row", Jobs: 9, Done: 9, TakenOver: 2},
		"nothing taken over": {Fence: "row", Jobs: 9, Done: 9, Refused: 1, TakenOver: 1},
		"no anomaly":         {Fence: "none", Jobs: 9, Done: 9, TakenOver: 2},
	} {
		require.Len(t, wrong.Check(), 1, name)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for _, args := range [][]string{{"-workers", "2"}, {"-jobs", "3"}, {"-style", "none"}, {"more"}} {
		_, _, err := parse(args, t.Output())
		require.Error(t, err, "%v", args)
	}
	_, _, err := parse(nil, t.Output())
	require.NoError(t, err)
}
