package testserver

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSharedRedisIsOneServer(t *testing.T) {
	a, b := SharedRedis(t), SharedRedis(t)
	require.Equal(t, a.Addr(), b.Addr())
	require.Equal(t, a.Info("server")["run_id"], b.Info("server")["run_id"])
}

func TestRedisArgumentsWin(t *testing.T) {
	r := StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	r.Do("SET", "k", "v")
	r.Kill()
	require.False(t, r.Alive())
	_, err := r.Try("PING")
	require.Error(t, err)

	r.Restart()
	require.True(t, r.Alive())
	require.Equal(t, "v", r.Do("GET", "k"), "an append-only file survives kill -9")
}

func TestRedisWithoutPersistenceForgets(t *testing.T) {
	r := StartRedis(t)
	r.Do("SET", "k", "v")
	addr := r.Addr()
	r.Restart()
	require.Equal(t, addr, r.Addr())
	require.Nil(t, r.Do("GET", "k"))
}

func TestPausedRedisAnswersAfterResume(t *testing.T) {
	r := StartRedis(t)
	r.Do("SET", "k", "v")
	r.Pause()
	require.True(t, r.Alive())
	answered := make(chan any, 1)
	go func() { v, _ := r.Try("GET", "k"); answered <- v }()
	select {
	case v := <-answered:
		t.Fatalf("a paused server answered %v", v)
	case <-time.After(100 * time.Millisecond):
	}
	r.Resume()
	require.Equal(t, "v", <-answered)
}

func TestStepClock(t *testing.T) {
	r := StartRedis(t)
	now := func() int64 {
		n, err := strconv.ParseInt(r.Do("TIME").([]any)[0].(string), 10, 64)
		require.NoError(t, err)
		return n
	}
	require.InDelta(t, time.Now().Unix(), now(), 5)
	r.Do("SET", "short", "v", "PX", "60000")
	r.Do("SET", "long", "v", "PX", "7200000")

	r.StepClock(time.Hour)
	require.InDelta(t, time.Now().Unix()+3600, now(), 5)
	require.Nil(t, r.Do("GET", "short"), "the key expires at the step")
	require.Equal(t, "v", r.Do("GET", "long"))

	r.Restart()
	require.InDelta(t, time.Now().Unix()+3600, now(), 5, "the step outlives a restart")
	r.StepClock(-2 * time.Hour)
	require.InDelta(t, time.Now().Unix()-3600, now(), 5)
}
