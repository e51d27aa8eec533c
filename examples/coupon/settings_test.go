package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCommandLine(t *testing.T) {
	for _, args := range []string{
		"-scenario nonsense", "-fence nonsense", "-fence none,zk", "-d 10ms", "-users 1", "-instances 1", "-coupons 0", "-wait -1s",
		"-work -1s", "-redis a:1,b:2,c:3", "-db postgres://x", "-real -redis a:1,b:2,c:3 -db postgres://x", "left over",
	} {
		var says strings.Builder
		_, err := parse(strings.Fields(args), &says)
		require.Error(t, err, args)
		require.NotEmpty(t, says.String(), args)
	}
	for args, want := range map[string]string{
		"":                            "25s 200ms 100 none,quorum,redis,db",
		"-d 3s":                       "3s 200ms 12 none,quorum,redis,db",
		"-d 3s -coupons 7":            "3s 200ms 7 none,quorum,redis,db",
		"-scenario load":              "25s 0s 1000000 none,quorum,redis,db",
		"-scenario rush":              "30s 0s 30000 none,quorum",
		"-scenario rush -d 2s":        "2s 0s 2000 none,quorum",
		"-scenario load -work 20ms":   "25s 20ms 1000000 none,quorum,redis,db",
		"-scenario normal -work 0":    "25s 0s 100 none,quorum,redis,db",
		"-scenario pause -d 1m":       "1m0s 200ms 240 none,quorum,redis,db",
		"-scenario rush -fence redis": "30s 0s 30000 redis",
		"-scenario clock-step -d 1s":  "1s 200ms 4 none,quorum,redis,db",
		"-zk a:1,b:2":                 "25s 200ms 100 none,quorum,redis,db,zk",
		"-real":                       "25s 200ms 100 none,quorum,redis,db,zk",
		"-real -fence zk":             "25s 200ms 100 zk",
		"-zk a:1 -scenario rush":      "30s 0s 30000 none,quorum",
	} {
		s, err := parse(strings.Fields(args), os.Stderr)
		require.NoError(t, err, args)
		c := s.Scenarios[0]
		require.Equal(t, want, fmt.Sprintf("%v %v %d %s", s.length(c), s.work(c), s.coupons(c), join(s.fences(c))), args)
		require.Equal(t, time.Second, s.TTL)
		require.Equal(t, 2*time.Second, s.Wait)
	}
}

// Where no ZooKeeper can be started, the story goes on without its fence, unless that
// is what was asked for.
func TestWithoutJava(t *testing.T) {
	t.Setenv("PATH", "")
	t.Setenv("FENCELOCK_TEST_REQUIRE", "")
	var says strings.Builder
	s, err := parse([]string{"-real"}, &says)
	require.NoError(t, err)
	stop, err := s.findKeeper(&says)
	require.NoError(t, err)
	require.NoError(t, stop())
	require.Contains(t, says.String(), "without the fence zk")
	require.Contains(t, says.String(), "install")
	require.Equal(t, fences, s.fences(s.Scenarios[0]))

	s, err = parse([]string{"-real", "-fence", "zk"}, &says)
	require.NoError(t, err)
	_, err = s.findKeeper(&says)
	require.ErrorContains(t, err, "install")
}
