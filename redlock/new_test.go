package redlock

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/testserver"
)

func TestNewRefusesWhatCannotBeAQuorum(t *testing.T) {
	e := start(t, 2)
	a, b := clients(t, e[0].Addr())[0], clients(t, e[1].Addr())[0]
	again := clients(t, e[0].Addr())[0]
	_, port, err := net.SplitHostPort(e[0].Addr())
	require.NoError(t, err)
	alias := clients(t, net.JoinHostPort("localhost", port))[0]
	proxied := clients(t, testserver.NewProxy(t, e[0].Addr()).Addr())[0]
	var none *redis.Client
	for what, c := range map[string]struct {
		nodes []redis.UniversalClient
		text  string
	}{
		"no node":            {nil, "0 nodes"},
		"an even number":     {[]redis.UniversalClient{a, b}, "2 nodes"},
		"nil":                {[]redis.UniversalClient{a, nil, b}, "node 1"},
		"a nil pointer":      {[]redis.UniversalClient{a, b, none}, "node 2"},
		"the same client":    {[]redis.UniversalClient{a, b, a}, "nodes 0 and 2 are the same client"},
		"the same address":   {[]redis.UniversalClient{a, b, again}, "nodes 0 and 2 are the same server"},
		"another name of it": {[]redis.UniversalClient{b, a, alias}, "nodes 1 and 2 are the same server"},
		"a proxy before it":  {[]redis.UniversalClient{proxied, a, b}, "nodes 0 and 1 are the same server"},
	} {
		_, err := New(c.nodes)
		require.ErrorContains(t, err, c.text, what)
	}
	for _, s := range e {
		require.Zero(t, s.Calls("evalsha", "eval", "set"))
	}
}

// R15, where the server does not say who it is: by the address.
func TestNewComparesAddressesWhereINFOIsRefused(t *testing.T) {
	e := start(t, 3)
	var nodes []redis.UniversalClient
	for _, s := range e {
		s.Do("ACL", "SETUSER", "default", "-info")
		nodes = append(nodes, clients(t, s.Addr())[0])
	}
	l, err := New(nodes)
	require.NoError(t, err)
	require.NoError(t, l.Close(within(t, generous)))
	nodes[2] = clients(t, e[1].Addr())[0]
	_, err = New(nodes)
	require.ErrorContains(t, err, "nodes 1 and 2 have the same address")
}

func TestNewRefusesBadOptions(t *testing.T) {
	nodes := clients(t, "127.0.0.1:1")
	for text, o := range map[string]fencelock.Option{
		"NodeTimeout(0s)": NodeTimeout(0),
		"Tokens(nil)":     Tokens(nil),
		"TTL(1ms)":        fencelock.TTL(time.Millisecond),
		"option 0 is nil": nil,
	} {
		_, err := New(nodes, o)
		require.ErrorContains(t, err, text)
	}
}

// Nodes that are down when the process starts must not keep it from starting.
func TestNewWithNodesThatAreDown(t *testing.T) {
	e := start(t, 3)
	e[1].Kill()
	l := dial(t, e.addrs(), fencelock.TTL(2*time.Second))
	release(t, acquire(t, l, "x"))
	e[2].Kill()
	_, err := l.TryAcquire(within(t, generous), "x")
	require.Error(t, err)
	require.NotErrorIs(t, err, fencelock.ErrHeld)
	require.ErrorContains(t, err, "1 of 3 nodes answered")
	e[1].Restart()
	release(t, acquire(t, l, "x"))
}

// A name whose key is another name's counter would destroy it.
func TestNamesOfCountersAreRefused(t *testing.T) {
	l := dial(t, start(t, 1).addrs(), fencelock.Prefix(""))
	release(t, acquire(t, l, "x"))
	for _, f := range []func(context.Context, string, ...fencelock.Option) (fencelock.Lock, error){l.Acquire, l.TryAcquire} {
		_, err := f(within(t, generous), "{x}"+companion)
		require.ErrorContains(t, err, "counter")
	}
	release(t, acquire(t, l, "{x}y"))
}
