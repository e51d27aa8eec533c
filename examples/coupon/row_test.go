package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock/examples/internal/report"
)

func TestJSONRowsHaveTheDocumentedKeys(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, report.PrintJSON(&b, []row{{Scenario: "pause", Fence: fenceRow}}))
	got := map[string]any{}
	require.NoError(t, json.Unmarshal(b.Bytes(), &got))
	var keys []string
	for key := range got {
		keys = append(keys, key)
	}
	require.ElementsMatch(t, []string{
		"scenario", "fence", "ok", "rows", "remaining", "phantom", "sold_out", "timeouts", "refused", "total",
		"locks_per_s", "p95_token_us",
	}, keys)
}

// An experiment that shows nothing, or a fence that let one through, must not
// look like a success.
func TestCheckFindsWrongRows(t *testing.T) {
	for _, r := range []row{
		{Scenario: "normal", Fence: fenceNone, OK: 12, Phantom: 1},
		{Scenario: "normal", Fence: fenceQuorum, OK: 0},
		{Scenario: "clock-step", Fence: fenceNone, OK: 12},
		{Scenario: "clock-step", Fence: fenceRedis, OK: 12, Phantom: 1, Refused: 1},
		{Scenario: "pause", Fence: fenceNone, OK: 12},
		{Scenario: "pause", Fence: fenceRow, OK: 12},
		{Scenario: "rush", Fence: fenceNone, OK: 12, Rows: 12, Remaining: 1},
		{Scenario: "rush", Fence: fenceNone, OK: 12, Rows: 11},
		{Scenario: "normal", Fence: fenceNone, OK: 12, Total: 30, failed: 16, failure: http.ErrServerClosed},
	} {
		require.Len(t, r.check(), 1, "%+v", r)
	}
	for _, r := range []row{
		{Scenario: "normal", Fence: fenceNone, OK: 12},
		{Scenario: "normal", Fence: fenceNone, OK: 12, Total: 30, failed: 15, failure: http.ErrServerClosed},
		{Scenario: "clock-step", Fence: fenceNone, OK: 12, Phantom: 1},
		{Scenario: "pause", Fence: fenceQuorum, OK: 12, Refused: 1},
		{Scenario: "rush", Fence: fenceQuorum, OK: 12, Rows: 12},
	} {
		require.Empty(t, r.check(), "%+v", r)
	}
}

func TestPercentile(t *testing.T) {
	require.Zero(t, percentile(nil, 0.95))
	require.EqualValues(t, 7, percentile([]int64{7}, 0.95))
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(100 - i)
	}
	require.EqualValues(t, 96, percentile(hundred, 0.95))
}
