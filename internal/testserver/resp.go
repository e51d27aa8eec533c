package testserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// doTime bounds one command and its reply.
const doTime = 30 * time.Second

// respConn speaks just enough of the Redis protocol to control a server; the tests themselves use a real client.
type respConn struct {
	net.Conn
	in *bufio.Reader
}

func dialRESP(addr string) (*respConn, error) {
	c, err := net.DialTimeout("tcp", addr, doTime)
	if err != nil {
		return nil, err
	}
	return &respConn{Conn: c, in: bufio.NewReader(c)}, nil
}

// do sends one command and returns its reply: string, int64, nil or []any; an error reply is an error.
func (c *respConn) do(args ...string) (any, error) { return c.send(encode(args)) }

func (c *respConn) send(request []byte) (any, error) {
	if err := c.SetDeadline(time.Now().Add(doTime)); err != nil {
		return nil, err
	}
	if _, err := c.Write(request); err != nil {
		return nil, err
	}
	return c.reply()
}

func (c *respConn) reply() (any, error) {
	raw, err := readRESP(c.in)
	if err != nil {
		return nil, err
	}
	return decode(bufio.NewReader(strings.NewReader(string(raw))))
}

func encode(args []string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}

// readRESP reads one whole message of the protocol, version 2 or 3, and returns its bytes.
func readRESP(r *bufio.Reader) ([]byte, error) { return appendRESP(nil, r) }

func appendRESP(b []byte, r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	b = append(b, line...)
	n, nested := 0, 0
	switch line[0] {
	case '$', '=', '!', '*', '~', '>', '%', '|':
		if n, err = strconv.Atoi(strings.TrimSpace(string(line[1:]))); err != nil {
			return nil, fmt.Errorf("no length in %q", line)
		}
	}
	switch line[0] {
	case '$', '=', '!':
		if n < 0 {
			return b, nil
		}
		start := len(b)
		b = append(b, make([]byte, n+2)...)
		_, err = io.ReadFull(r, b[start:])
		return b, err
	case '*', '~', '>':
		nested = n
	case '%':
		nested = 2 * n
	case '|': // attributes precede the message they belong to
		nested = 2*n + 1
	}
	for range nested {
		if b, err = appendRESP(b, r); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// decode reads the message types that version 2 has.
func decode(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	kind, text := line[0], strings.TrimRight(line[1:], "\r\n")
	switch kind {
	case '+':
		return text, nil
	case '-':
		return nil, errors.New(text)
	case ':':
		return strconv.ParseInt(text, 10, 64)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return nil, err
	}
	if kind == '$' {
		b := make([]byte, n+2)
		_, err := io.ReadFull(r, b)
		return string(b[:n]), err
	}
	list := make([]any, n)
	for i := range list {
		// An error inside a list is a value: the rest of the list still follows.
		if list[i], err = decode(r); err != nil {
			list[i] = err
		}
	}
	return list, nil
}
