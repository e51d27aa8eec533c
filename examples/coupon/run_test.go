package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// run here, unlike the story's tests, has the race detector look on.
func runHere(t *testing.T, args ...string) []row {
	t.Helper()
	s, err := parse(args, os.Stderr)
	require.NoError(t, err)
	var log, out bytes.Buffer
	rows, err := experiment(t.Context(), s, &log)
	require.NoError(t, printTable(&out, rows))
	t.Logf("\n%s%s", &log, &out)
	require.NoError(t, err)
	return rows
}

// Servers that are running already are not ours to step; the keys' life is
// shortened instead.
func TestRunningServers(t *testing.T) {
	running, err := embeddedServers(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, running.close()) }()
	rows := runHere(t, "-redis", strings.Join(running.redis, ","), "-db", running.database,
		"-d", "3s", "-scenario", "clock-step", "-fence", "none,quorum", "-instances", "3", "-users", "12")
	require.Len(t, rows, 2)
	for _, r := range rows {
		require.Empty(t, r.check(), r.note())
	}

	db, err := openDatabase(running.database)
	require.NoError(t, err)
	defer db.Close()
	var tables int
	require.NoError(t, db.QueryRow(`SELECT count(*) FROM sqlite_master WHERE name LIKE 'fencelock%'`).Scan(&tables))
	require.Zero(t, tables, "the shop's tables are gone afterwards")
}

func TestRunningServersMustBeThree(t *testing.T) {
	s, err := parse([]string{"-redis", "a:1,b:2", "-db", "sqlite:/nowhere"}, os.Stderr)
	require.NoError(t, err)
	_, err = experiment(t.Context(), s, os.Stderr)
	require.ErrorContains(t, err, "not 2")
}

func TestLoadIsNeverSoldOut(t *testing.T) {
	for _, r := range runHere(t, "-d", "1s", "-scenario", "load", "-fence", "quorum", "-users", "8", "-instances", "2") {
		require.Empty(t, r.check(), r.note())
		require.Equal(t, 1_000_000-r.Rows, r.Remaining)
		require.Zero(t, r.SoldOut)
		require.Positive(t, r.LocksPerS)
	}
}

func TestBuyersOfARushAskAgainWhenBusy(t *testing.T) {
	var sold, asked atomic.Int64
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch n := asked.Add(1); {
		case n%3 == 0:
			http.Error(w, "busy", http.StatusServiceUnavailable)
		case sold.Add(1) <= 100:
			fmt.Fprintln(w, n)
		default:
			http.Error(w, "sold out", http.StatusGone)
		}
	}))
	defer shop.Close()
	b := newBuyers([]*instance{{url: shop.URL}, {url: shop.URL}})
	defer b.client.CloseIdleConnections()
	b.rush(t.Context(), 150, 300*time.Millisecond)
	got := b.counts()
	require.Equal(t, 100, got.OK)
	require.Len(t, b.sold, 100)
	require.Equal(t, 50, got.SoldOut)
	require.Positive(t, got.Timeouts)
	require.Zero(t, got.failed)
	require.EqualValues(t, asked.Load(), got.Total)
}

func TestBuyersNoteAnswersThatNoShopShouldGive(t *testing.T) {
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the roof is on fire", http.StatusInternalServerError)
	}))
	b := newBuyers([]*instance{{url: shop.URL}})
	b.buy(b.shops[0])
	shop.Close()
	b.buy(b.shops[0])
	got := b.counts()
	require.Equal(t, 2, got.failed)
	require.ErrorContains(t, got.failure, "the roof is on fire")
}
