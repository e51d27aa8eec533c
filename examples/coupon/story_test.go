package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock/internal/testserver"
)

// tell runs the experiment and returns its rows.
func tell(t *testing.T, args ...string) []row {
	t.Helper()
	s, err := parse(args, os.Stderr)
	require.NoError(t, err)
	var log bytes.Buffer
	rows, err := experiment(t.Context(), s, &log)
	t.Log("\n" + log.String() + table(t, rows))
	require.NoError(t, err)
	require.Len(t, rows, len(s.Scenarios)*len(s.Fences))
	return rows
}

func table(t *testing.T, rows []row) string {
	var b strings.Builder
	require.NoError(t, printTable(&b, rows))
	return b.String()
}

func requireRight(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		require.Empty(t, r.check())
	}
}

// The whole story on embedded servers: the faults make phantoms, the fences
// refuse them.
func TestFenceSavesTheSale(t *testing.T) {
	if testing.Short() {
		requireRight(t, tell(t, "-d", "3s", "-scenario", "clock-step", "-fence", "none,quorum"))
		return
	}
	requireRight(t, tell(t, "-d", "3s"))
}

// With the fence's comparison replaced by true the phantoms come back: it is
// the comparison that saves the sale and nothing else.
func TestPhantomsComeBackWhenTheFenceAdmitsAll(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 12 s")
	}
	t.Setenv(openFenceEnv, "1")
	for _, r := range tell(t, "-d", "3s", "-scenario", "clock-step,pause", "-fence", "quorum,redis,db") {
		require.Positive(t, r.Phantom, "%s, fence %s", r.Scenario, r.Fence)
		require.Zero(t, r.Refused, "%s, fence %s", r.Scenario, r.Fence)
		require.NotEmpty(t, r.check())
	}
}

func TestRealServers(t *testing.T) {
	testserver.Binary(t, "install redis-server", "redis-server")
	if _, err := findPostgres("initdb"); err != nil {
		testserver.Missing(t, "%v", err)
	}
	if testing.Short() {
		t.Skip("takes 20 s")
	}
	requireRight(t, tell(t, "-real", "-d", "3s"))
}

// Servers that are running already are not ours to step; the keys' life is
// shortened instead.
func TestRunningServers(t *testing.T) {
	running, err := embeddedServers(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, running.close()) }()
	requireRight(t, tell(t, "-redis", strings.Join(running.redis, ","), "-db", running.database,
		"-d", "3s", "-scenario", "clock-step", "-fence", "none,quorum"))

	db, err := openDatabase(running.database)
	require.NoError(t, err)
	defer db.Close()
	var tables int
	require.NoError(t, db.QueryRow(`SELECT count(*) FROM sqlite_master WHERE name LIKE 'fencelock%'`).Scan(&tables))
	require.Zero(t, tables, "the shop's tables are gone afterwards")
}

func TestRushSellsEveryCouponOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 10 s")
	}
	for _, r := range tell(t, "-d", "2s", "-scenario", "rush", "-fence", "none,quorum") {
		require.Empty(t, r.check())
		require.Equal(t, 2000, r.OK)
		require.Equal(t, 2000, r.Rows)
		require.Zero(t, r.SoldOut)
	}
}

func TestLoadIsNeverSoldOut(t *testing.T) {
	for _, r := range tell(t, "-d", "1s", "-scenario", "load", "-fence", "quorum") {
		require.Empty(t, r.check())
		require.Equal(t, 1_000_000-r.OK, r.Remaining)
		require.Zero(t, r.SoldOut)
		require.Positive(t, r.LocksPerS)
	}
}

func TestJSONRowsHaveTheDocumentedKeys(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, printJSON(&b, []row{{Scenario: "pause", Fence: fenceRow}}))
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
		{Scenario: "normal", Fence: fenceNone, OK: 12, failed: 1, failure: http.ErrServerClosed},
	} {
		require.Len(t, r.check(), 1, "%+v", r)
	}
	for _, r := range []row{
		{Scenario: "normal", Fence: fenceNone, OK: 12},
		{Scenario: "clock-step", Fence: fenceNone, OK: 12, Phantom: 1},
		{Scenario: "pause", Fence: fenceQuorum, OK: 12, Refused: 1},
		{Scenario: "rush", Fence: fenceQuorum, OK: 12, Rows: 12},
	} {
		require.Empty(t, r.check(), "%+v", r)
	}
}

func TestCommandLine(t *testing.T) {
	for _, args := range []string{
		"-scenario nonsense", "-fence nonsense", "-d 10ms", "-users 1", "-instances 1", "-coupons 0", "-wait -1s",
		"-work -1s", "-redis a:1,b:2,c:3", "-db postgres://x", "-real -redis a:1,b:2,c:3 -db postgres://x", "left over",
	} {
		var says strings.Builder
		_, err := parse(strings.Fields(args), &says)
		require.Error(t, err, args)
		require.NotEmpty(t, says.String(), args)
	}
	for args, want := range map[string]string{
		"":                           "25s 200ms 100",
		"-d 3s":                      "3s 200ms 12",
		"-d 3s -coupons 7":           "3s 200ms 7",
		"-scenario load":             "25s 0s 1000000",
		"-scenario rush":             "30s 0s 30000",
		"-scenario rush -d 2s":       "2s 0s 2000",
		"-scenario load -work 20ms":  "25s 20ms 1000000",
		"-scenario normal -work 0":   "25s 0s 100",
		"-scenario pause -d 1m":      "1m0s 200ms 240",
		"-scenario clock-step -d 1s": "1s 200ms 4",
	} {
		s, err := parse(strings.Fields(args), os.Stderr)
		require.NoError(t, err, args)
		c := s.Scenarios[0]
		require.Equal(t, want, fmt.Sprint(s.length(c), s.work(c), s.coupons(c)), args)
		require.Equal(t, time.Second, s.TTL)
		require.Equal(t, 2*time.Second, s.Wait)
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
