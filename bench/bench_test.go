package main

import (
	"bytes"
	"os"
	"slices"
	"testing"
	"time"
)

func TestQuantiles(t *testing.T) {
	h := make(histogram)
	for i := range 1000 {
		h.add(time.Duration(i+1) * time.Millisecond)
	}
	for q, want := range map[float64]float64{0.5: 500e3, 0.99: 990e3, 1: 1000e3} {
		if got := h.quantile(q); got < want*0.97 || got > want*1.03 {
			t.Errorf("quantile(%v) = %v, want about %v", q, got, want)
		}
	}
}

// A goal whose contender is misspelt would be met by never being compared.
func TestGoalsNameWhatExists(t *testing.T) {
	for _, g := range goals {
		if !slices.Contains(names(), g.workload) {
			t.Errorf("no workload %q", g.workload)
		}
		for _, who := range []string{g.ours, g.peer} {
			if who != "" && !slices.ContainsFunc(contenders, func(c contender) bool { return c.who == who || c.kind == who }) {
				t.Errorf("no contender %q", who)
			}
		}
	}
}

func TestRatios(t *testing.T) {
	rows := []row{
		{Workload: "solo", Who: "fencelock/redis", kind: "redis", Locks: 90},
		{Workload: "solo", Who: floorName, kind: "redis", peer: true, Locks: 100},
		{Workload: "solo", Who: "redislock", kind: "redis", peer: true, Locks: 50},
		{Workload: "solo", Who: "redsync", kind: "redis", peer: true, Locks: 80},
	}
	got := compare(rows)
	if len(got) != 2 || got[0].Ratio != 0.9 || got[0].met() || got[1].Peer != "redsync" || got[1].Ratio != 90.0/80 || !got[1].met() {
		t.Errorf("%+v", got)
	}
}

// The whole way, on a real server, with what takes no time.
func TestARunPrintsRows(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers")
	}
	var out bytes.Buffer
	if err := bench(t.Context(), []string{"-only", "solo,hot", "-who", "redis", "-rounds", "1", "-d", "200ms", "-json"}, &out); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(out.Bytes(), []byte(`"workload":"hot","who":"fencelock/redis"`)) {
		t.Errorf("%s", out.Bytes())
	}
}

func TestMain(m *testing.M) {
	runWorker()
	os.Exit(m.Run())
}
