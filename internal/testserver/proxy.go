package testserver

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// Direction selects one or both ways through a Proxy.
type Direction uint8

// The ways through a Proxy.
const (
	ToServer Direction = 1 << iota // requests
	ToClient                       // replies
	Both     = ToServer | ToClient
)

// Proxy is a TCP proxy with faults. Bytes of one connection and direction never change their order. Faults apply to open
// and to new connections. Its methods are safe for concurrent use. It is closed when its test ends.
type Proxy struct {
	tb    testing.TB
	addr  string
	split splitter
	tap   tap

	wg sync.WaitGroup // the accept loop and all goroutines of connections

	mu      sync.Mutex
	target  string
	ways    [Both]way     // indexed by Direction
	changed chan struct{} // closed and replaced at each change
	l       net.Listener  // nil: refusing
	closed  bool
	conns   map[*proxyConn]bool
}

// splitter reads one message: the piece that passes or is lost as a whole.
type splitter func(*bufio.Reader) ([]byte, error)

// tap sees each message just before it is sent, may hold it, and reports whether it is to be sent.
type tap func(c *proxyConn, dir Direction, data []byte) bool

// way is the present state of one direction.
type way struct {
	delay, jitter time.Duration
	hole, frozen  bool
}

// NewProxy starts a proxy to target (host:port). It knows nothing of the protocol.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	return newProxy(tb, target, readSome, nil)
}

func newProxy(tb testing.TB, target string, split splitter, tap tap) *Proxy {
	tb.Helper()
	p := &Proxy{tb: tb, target: target, split: split, tap: tap, changed: make(chan struct{}), conns: map[*proxyConn]bool{}}
	for attempt := 0; p.l == nil; attempt++ {
		port, err := freePort()
		if err == nil {
			p.addr = loopback(port)
			err = p.listen()
		}
		if err != nil && attempt == 10 {
			tb.Fatalf("testserver: proxy: %v", err)
		}
	}
	tb.Cleanup(p.Close)
	return p
}

// Addr returns the host:port to connect to. It stays the same for the life of the proxy.
func (p *Proxy) Addr() string { return p.addr }

// Delay delays what comes in from now on by d and up to jitter more, at random. Delay(Both, 0, 0) ends it; Heal does not.
func (p *Proxy) Delay(dir Direction, d, jitter time.Duration) {
	p.change(dir, func(w *way) { w.delay, w.jitter = d, jitter })
}

// Drop makes a black hole of one way or both: connections stay open, and new ones are accepted, but what is sent is
// swallowed, the closing of a connection included. Heal closes the connections that have lost bytes.
func (p *Proxy) Drop(dir Direction) { p.change(dir, func(w *way) { w.hole = true }) }

// Freeze holds what is sent, the closing of a connection included, until Heal delivers it.
func (p *Proxy) Freeze(dir Direction) { p.change(dir, func(w *way) { w.frozen = true }) }

// Cut closes all connections and refuses new ones until Heal. Nothing that is sent after it passes.
func (p *Proxy) Cut() {
	p.tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.l != nil {
		p.l.Close()
		p.l = nil
	}
	p.closeConns()
}

// Heal ends Drop, Freeze and Cut.
func (p *Proxy) Heal() {
	p.tb.Helper()
	p.change(Both, func(w *way) { w.hole, w.frozen = false, false })
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.l == nil && !p.closed {
		if err := p.listen(); err != nil {
			p.tb.Fatalf("testserver: proxy: %v", err)
		}
	}
}

// Retarget sends new connections to another server and closes those to the old one, as a failover does.
func (p *Proxy) Retarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	p.closeConns()
}

// Conns returns the number of open connections.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// Close ends the proxy and waits for all its goroutines.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	if p.l != nil {
		p.l.Close()
		p.l = nil
	}
	p.closeConns()
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *Proxy) change(dir Direction, set func(*way)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range []Direction{ToServer, ToClient} {
		if dir&d != 0 {
			set(&p.ways[d])
		}
	}
	for c := range p.conns {
		// Bytes are missing in the middle: nothing that is sent later could be understood.
		if c.lossy && !p.ways[ToServer].hole && !p.ways[ToClient].hole {
			c.close()
		}
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) closeConns() {
	for c := range p.conns {
		c.close()
	}
}

// listen is called with the lock held, or before anybody else knows of p.
func (p *Proxy) listen() error {
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return err
	}
	p.l = l
	p.wg.Add(1)
	go func() {
		defer p.wg.Done()
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.connect(l, client)
		}
	}()
	return nil
}

// connect joins a client to the server, unless the proxy was cut since l accepted it.
func (p *Proxy) connect(l net.Listener, client net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.l != l {
		client.Close()
		return
	}
	c := &proxyConn{p: p, target: p.target, done: make(chan struct{})}
	p.conns[c] = true
	p.wg.Add(1)
	go c.run(client)
}

// due returns when a message that arrives now may leave.
func (p *Proxy) due(dir Direction) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.ways[dir]
	if w.jitter > 0 {
		w.delay += rand.N(w.jitter)
	}
	return time.Now().Add(w.delay)
}

// readSome reads what is there.
func readSome(r *bufio.Reader) ([]byte, error) {
	if _, err := r.Peek(1); err != nil {
		return nil, err
	}
	b := make([]byte, r.Buffered())
	_, err := io.ReadFull(r, b)
	return b, err
}
