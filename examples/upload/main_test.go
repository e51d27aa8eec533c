package main

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/examples/internal/storytest"
)

func TestMain(m *testing.M) { storytest.Main(m) }

func TestTheStoryIsTold(t *testing.T) {
	events, status := storytest.Tell[event](t, storytest.Build(t, ""))
	require.Zero(t, status)
	var told []string
	for _, e := range events {
		told = append(told, e.Process+" "+e.What)
	}
	require.Equal(t, []string{"A locked", "A paused", "B locked", "B wrote", "A woke", "A refused"}, told)
	require.Greater(t, events[2].Token, events[0].Token)
}

func get(t *testing.T, b bucket, name string) string {
	t.Helper()
	resp, err := b.client.Get(b.url + "/" + name)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

func TestAPutIsFenced(t *testing.T) {
	b, stop, err := serve()
	require.NoError(t, err)
	defer stop()
	put := func(token fencelock.Token, body string) error { return b.put(t.Context(), "x", token, []byte(body)) }
	require.NoError(t, put(5, "five"))
	require.NoError(t, put(5, "five again"))
	var stale *fencelock.StaleError
	require.ErrorAs(t, put(4, "four"), &stale)
	require.Equal(t, fencelock.StaleError{Name: "x", Have: 4, Want: 5}, *stale)
	require.Equal(t, "five again", get(t, b, "x"))
	require.NoError(t, put(10, "ten"), "a number, not a text")
	require.ErrorIs(t, put(9, "nine"), fencelock.ErrStale)
}

// Whoever is first at the store: in the end it has what the latest holder wrote.
func TestManyAtOnce(t *testing.T) {
	b, stop, err := serve()
	require.NoError(t, err)
	defer stop()
	const writers = 8
	var all sync.WaitGroup
	for token := 1; token <= writers; token++ {
		all.Go(func() {
			for range 5 {
				err := b.put(t.Context(), "x", fencelock.Token(token), fmt.Append(nil, token))
				if token == writers && err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, fmt.Sprint(writers), get(t, b, "x"))
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"-no-such-flag"}} {
		_, err := parse(args, io.Discard)
		require.Error(t, err, args)
	}
}
