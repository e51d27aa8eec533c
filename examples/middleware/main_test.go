package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/examples/internal/storytest"
	"github.com/fencelock/fencelock/examples/middleware/fenced"
)

func TestMain(m *testing.M) { storytest.Main(m) }

func TestTheStoryIsTold(t *testing.T) {
	events, status := storytest.Tell[event](t, storytest.Build(t, ""))
	require.Zero(t, status)
	var told []string
	for _, e := range events {
		told = append(told, e.Worker+" "+e.What)
	}
	require.Equal(t, []string{"A locked", "A paused", "B locked", "B wrote", "A woke", "A refused"}, told)
	require.Greater(t, events[2].Token, events[0].Token)
}

func TestTheServiceIsFenced(t *testing.T) {
	at, stop, err := serve()
	require.NoError(t, err)
	defer func() { require.NoError(t, stop()) }()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: fenced.Transport{Base: transport}}
	send := func(method string, token fencelock.Token, body string) (int, string, error) {
		ctx := t.Context()
		if token != 0 {
			ctx = fenced.With(ctx, token)
		}
		req, err := http.NewRequestWithContext(ctx, method, at+"/documents/7", strings.NewReader(body))
		require.NoError(t, err)
		resp, err := client.Do(req)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(text), nil
	}
	put := func(token fencelock.Token, body string, want int) {
		t.Helper()
		status, text, err := send(http.MethodPut, token, body)
		require.NoError(t, err)
		require.Equal(t, want, status, text)
	}
	put(0, "nobody's", http.StatusPreconditionRequired)
	put(-1, "nobody's", http.StatusPreconditionRequired)
	put(5, "five", http.StatusNoContent)
	put(5, "five again", http.StatusNoContent)
	put(10, "ten", http.StatusNoContent)
	_, _, err = send(http.MethodPut, 9, "nine")
	require.ErrorIs(t, err, fencelock.ErrStale)
	status, text, err := send(http.MethodGet, 0, "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "ten", text)
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"-no-such-flag"}} {
		_, err := parse(args, io.Discard)
		require.Error(t, err, args)
	}
}
