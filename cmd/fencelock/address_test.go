//go:build unix

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A password must not be printed, however wrong the URL is.
func TestPasswordsAreNotPrinted(t *testing.T) {
	const secret, written = "s3cr/t?#", "s3cr%2Ft%3F%23"
	for _, on := range []string{
		"redis://u:" + written + "@127.0.0.1:1",
		"redis://u:" + written + "@127.0.0.1:x",
		"redis://u:" + written + "@127.0.0.1:1/nodb",
		"redis://u:" + written + "@127.0.0.1:1?nonsense=1",
		"redis://u:" + written + "%zz@127.0.0.1:1",
		"redis://u:s3cr t@127.0.0.1:1",
		"redis+sentinel://127.0.0.1:1/m?sentinel_password=" + written,
		"redis+sentinel://u:" + written + "@127.0.0.1:1",
		"redis+redlock://u:" + written + "@127.0.0.1:1,127.0.0.1:2",
		"redis+cluster://u:" + written + "@127.0.0.1:1",
		"postgres://u:" + written + "@127.0.0.1:1/x",
		"postgres://u:" + written + "@127.0.0.1:x/x?sslmode=nonsense",
		"postgres://127.0.0.1:1/x?password=" + written,
		"mysql://u:" + written + "@127.0.0.1:1/x",
		"mysql://u:" + written + "@127.0.0.1:1/x?nonsense=1&parseTime=maybe",
		"zk://u:" + written + "@127.0.0.1:1",
		"etcd://u:" + written + "@127.0.0.1:1/path",
		"zk://u:" + written + "@127.0.0.1:1/path",
		"gopher://u:" + written + "@127.0.0.1:1",
		"redis//u:" + written + "@127.0.0.1:1",
		"redis://u:" + written + "@127.0.0.1:1,,",
	} {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := fence(t, []string{"FENCELOCK_ON=" + on}, "run", "--name", "x", "--wait", "50ms", "--json", "--", "true").wait()
			require.Contains(t, []int{exitUsage, exitUnreachable}, code, stderr)
			for _, s := range []string{secret, written, "s3cr"} {
				require.NotContains(t, stdout+stderr, s)
			}
		})
	}
	_, stdout, _ := fence(t, []string{"FENCELOCK_ON=redis://u:" + written + "@127.0.0.1:1"}, "run", "--help").wait()
	require.Contains(t, stdout, "FENCELOCK_ON")
	require.NotContains(t, stdout, "s3cr")
}

func TestParse(t *testing.T) {
	a, err := parse("redis+sentinel://u:p%40@a,b:2,[::1]:3,::1/m/1?x=y")
	require.NoError(t, err)
	require.Equal(t, "redis", a.scheme)
	require.Equal(t, "sentinel", a.style)
	require.Equal(t, []string{"a:26379", "b:2", "[::1]:3", "[::1]:26379"}, a.ports("26379"))
	require.Equal(t, "u:p@", userPassword(a))
	require.Equal(t, "/m/1", a.path)
	require.Equal(t, "y", a.take("x"))
	require.Empty(t, a.query)
	for _, bad := range []string{"", "redis", "redis:/x", "redis://", "redis://a,", "redis://a#x", "redis://a?%zz", "redis://%zz@a"} {
		_, err := parse(bad)
		require.Error(t, err, bad)
	}
}
