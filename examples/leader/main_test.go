package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock/examples/internal/child"
	"github.com/fencelock/fencelock/examples/internal/storytest"
	"github.com/fencelock/fencelock/internal/testserver"
)

func TestMain(m *testing.M) {
	child.Main(candidateEnv, runCandidate)
	storytest.Main(m)
}

func TestTheStoryIsTold(t *testing.T) {
	for name, on := range map[string]func(t *testing.T) string{
		"ZooKeeper": func(t *testing.T) string { return "zk://" + testserver.StartZooKeeper(t).Addr() },
		"etcd":      func(t *testing.T) string { return "etcd://" + testserver.StartEtcd(t).Addr() },
		"Redis":     func(t *testing.T) string { return "redis://" + testserver.StartRedis(t).Addr() },
	} {
		t.Run(name, func(t *testing.T) {
			events, status := storytest.Tell[event](t, storytest.Build(t, ""), "-on", on(t))
			require.Zero(t, status)
			check(t, events)
		})
	}
}

// check reads the story as somebody who does not know how it was made.
func check(t *testing.T, events []event) {
	count := map[string]int{}
	var leaders []event
	for _, e := range events {
		count[e.What]++
		switch e.What {
		case "leads":
			leaders = append(leaders, e)
		case "wrote":
			last := leaders[len(leaders)-1]
			require.Equal(t, last.Token, e.Token, "only the latest leader's writes count")
			require.Equal(t, last.Process, e.Process)
		case "refused":
			require.Less(t, e.Token, leaders[len(leaders)-1].Token)
		}
	}
	require.Equal(t, 1, count["ran"], "the batch ran once")
	require.Equal(t, 2, count["skipped"])
	require.GreaterOrEqual(t, len(leaders), 3, "one was killed, one was stopped")
	for i := 1; i < len(leaders); i++ {
		require.Greater(t, leaders[i].Token, leaders[i-1].Token)
		require.NotEqual(t, leaders[i].Process, leaders[i-1].Process)
	}
	require.Equal(t, 1, count["killed"])
	require.Equal(t, 1, count["refused"], "the one that woke wrote too late")
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"-ttl", "1ms"}, {"-no-such-flag"}} {
		_, _, err := parse(args, io.Discard)
		require.Error(t, err, args)
	}
	_, err := open(settings{On: "pg://x"})
	require.ErrorContains(t, err, "none of")
}
