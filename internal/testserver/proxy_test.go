package testserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echoServer answers each connection with its own bytes.
func echoServer(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer c.Close(); _, _ = io.Copy(c, c) })
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func write(t *testing.T, c net.Conn, text string) {
	_, err := io.WriteString(c, text)
	require.NoError(t, err)
}

func expect(t *testing.T, c net.Conn, text string) {
	t.Helper()
	b := make([]byte, len(text))
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	_, err := io.ReadFull(c, b)
	require.NoError(t, err)
	require.Equal(t, text, string(b))
}

// silent makes sure that nothing comes and the connection stays open.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	n, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "%d bytes read", n)
}

// ended makes sure that the connection closes without another byte.
func ended(t *testing.T, c net.Conn) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	n, err := c.Read(make([]byte, 1))
	require.Zero(t, n)
	require.True(t, errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET), "%v", err)
}

func TestProxyKeepsTheOrderUnderJitterAndFreezes(t *testing.T) {
	p := NewProxy(t, echoServer(t))
	p.Delay(Both, 0, 3*time.Millisecond)
	c := dial(t, p.Addr())
	sent := make([]byte, 1<<20)
	for i := range sent {
		sent[i] = byte(i >> 8 * 7)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for rest := sent; len(rest) > 0; {
			n := min(len(rest), 5000)
			if _, err := c.Write(rest[:n]); err != nil {
				return // the reader fails the test
			}
			rest = rest[n:]
			p.Freeze(Both)
			p.Heal()
		}
	})
	got := make([]byte, len(sent))
	require.NoError(t, c.SetReadDeadline(time.Now().Add(60*time.Second)))
	_, err := io.ReadFull(c, got)
	require.NoError(t, err)
	require.True(t, bytes.Equal(sent, got))
}

func TestProxyDelaysEachDirection(t *testing.T) {
	p := NewProxy(t, echoServer(t))
	c := dial(t, p.Addr())
	write(t, c, "warm")
	expect(t, c, "warm")
	p.Delay(ToServer, 100*time.Millisecond, 0)
	p.Delay(ToClient, 200*time.Millisecond, 0)
	start := time.Now()
	for range 20 { // a delay, not a limit of throughput: all of them take as long as one
		write(t, c, "x")
	}
	expect(t, c, "xxxxxxxxxxxxxxxxxxxx")
	require.GreaterOrEqual(t, time.Since(start), 300*time.Millisecond)
	require.Less(t, time.Since(start), 3*time.Second)
	p.Delay(Both, 0, 0)
	write(t, c, "y")
	expect(t, c, "y")
}

func TestProxyDropSwallowsUntilHeal(t *testing.T) {
	for name, dir := range map[string]Direction{"requests": ToServer, "replies": ToClient, "both": Both} {
		t.Run(name, func(t *testing.T) {
			p := NewProxy(t, echoServer(t))
			c, idle := dial(t, p.Addr()), dial(t, p.Addr())
			write(t, c, "a")
			expect(t, c, "a")
			write(t, idle, "a")
			expect(t, idle, "a")

			p.Drop(dir)
			write(t, c, "lost")
			silent(t, c)
			late := dial(t, p.Addr()) // a black hole accepts, and is silent
			write(t, late, "lost")
			silent(t, late)

			p.Heal()
			ended(t, c)
			ended(t, late)
			write(t, idle, "b") // lost nothing, so goes on
			expect(t, idle, "b")
		})
	}
}

func TestProxyDropSwallowsTheEndOfAConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	p := NewProxy(t, l.Addr().String())
	c := dial(t, p.Addr())
	server, err := l.Accept()
	require.NoError(t, err)
	defer server.Close()
	p.Drop(ToServer)
	c.Close()
	silent(t, server)
	p.Heal()
	ended(t, server)
}

func TestProxyFreezeDeliversAtHeal(t *testing.T) {
	p := NewProxy(t, echoServer(t))
	c := dial(t, p.Addr())
	p.Freeze(ToServer)
	write(t, c, "held")
	silent(t, c)
	p.Heal()
	expect(t, c, "held")
}

func TestProxyCutRefusesUntilHeal(t *testing.T) {
	p := NewProxy(t, echoServer(t))
	c := dial(t, p.Addr())
	write(t, c, "a")
	expect(t, c, "a")
	p.Cut()
	ended(t, c)
	_, err := net.Dial("tcp", p.Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.True(t, poll(20*time.Second, func() bool { return p.Conns() == 0 }))

	p.Heal()
	c = dial(t, p.Addr())
	write(t, c, "b")
	expect(t, c, "b")
	require.Equal(t, 1, p.Conns())
	p.Cut()
	p.Close() // also when cut
}

func TestProxyRetargetMovesToAnotherServer(t *testing.T) {
	p := NewProxy(t, echoServer(t))
	c := dial(t, p.Addr())
	write(t, c, "a")
	expect(t, c, "a")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	p.Retarget(l.Addr().String())
	ended(t, c)
	write(t, dial(t, p.Addr()), "b")
	other, err := l.Accept()
	require.NoError(t, err)
	defer other.Close()
	expect(t, other, "b")
}

func TestProxyPassesTheEndOfAConnection(t *testing.T) {
	p := NewProxy(t, echoServer(t))
	c := dial(t, p.Addr())
	write(t, c, "last words")
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	expect(t, c, "last words")
	ended(t, c)
	require.True(t, poll(20*time.Second, func() bool { return p.Conns() == 0 }))
}

func TestProxyWithoutServerClosesConnections(t *testing.T) {
	port, err := freePort()
	require.NoError(t, err)
	ended(t, dial(t, NewProxy(t, loopback(port)).Addr()))
}
