package testserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
)

const firstPort = 15000

var ports = struct {
	sync.Mutex
	given map[int]bool
}{given: map[int]bool{}}

var nextPort = freePort // replaced in tests

// freePort returns a port of the loopback interface that nobody listens on and that this process has not had before.
// It lies below the range for outgoing connections, else one of those might take it while a server restarts. Another
// process may still take it first: start again with another port then.
func freePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	end := outgoingPorts()
	for range 1000 {
		port := firstPort + rand.IntN(end-firstPort)
		if ports.given[port] {
			continue
		}
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue
		}
		l.Close()
		ports.given[port] = true
		return port, nil
	}
	return 0, errors.New("no free port found")
}

// startOnPort starts a server on a free port, and on another one if somebody else takes it first.
func startOnPort(command func(port int) (Command, error)) (*Process, error) {
	for attempt := 0; ; attempt++ {
		port, err := nextPort()
		if err != nil {
			return nil, err
		}
		c, err := command(port)
		if err != nil {
			return nil, err
		}
		p, err := start(c)
		if err == nil || attempt == 10 || !strings.Contains(err.Error(), "Address already in use") {
			return p, err
		}
		_ = os.Remove(p.log)
	}
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func hostPort(addr string) (host, port string) {
	host, port, _ = net.SplitHostPort(addr)
	return host, port
}

// outgoingPorts returns the first port that the system gives to outgoing connections.
func outgoingPorts() int {
	const usual = 32768
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return usual
	}
	var low int
	if _, err := fmt.Sscan(string(b), &low); err != nil || low < firstPort+1000 {
		return usual
	}
	return low
}
