package testserver

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// proxyConn is one client's connection through a Proxy. For each direction one goroutine reads and one writes, so that
// a delay does not hold back the reading of what follows.
type proxyConn struct {
	p      *Proxy
	target string
	done   chan struct{} // closed with the connection

	mu    sync.Mutex
	ended bool
	ends  []net.Conn // the client's, then the server's

	lossy bool      // under p.mu: bytes have been swallowed
	redis redisConn // used by RedisProxy only
}

// message is a piece of traffic that passes as a whole.
type message struct {
	data []byte // nil: the sender has closed its end
	due  time.Time
}

// close ends the connection: when it returns, nothing more passes.
func (c *proxyConn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	close(c.done)
	for _, end := range c.ends {
		end.Close()
	}
}

func (c *proxyConn) run(client net.Conn) {
	defer c.p.wg.Done()
	defer func() {
		c.close()
		c.p.mu.Lock()
		delete(c.p.conns, c)
		c.p.mu.Unlock()
	}()
	if !c.owns(client) {
		return
	}
	server, err := net.DialTimeout("tcp", c.target, 10*time.Second)
	if err != nil || !c.owns(server) {
		return
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { c.pump(ToServer, client, server) })
	pumps.Go(func() { c.pump(ToClient, server, client) })
	pumps.Wait()
}

// owns has end closed with the connection, and reports false if that has already happened.
func (c *proxyConn) owns(end net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		end.Close()
		return false
	}
	c.ends = append(c.ends, end)
	return true
}

// pump moves one direction until its sender or the connection closes.
func (c *proxyConn) pump(dir Direction, from, to net.Conn) {
	queue := make(chan message, 1024)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(queue)
		r := bufio.NewReaderSize(from, 32<<10)
		for {
			data, err := c.p.split(r)
			if err != nil {
				data = nil
			}
			select {
			case queue <- message{data, c.p.due(dir)}:
			case <-c.done:
				return
			}
			if err != nil {
				return
			}
		}
	})
	defer reader.Wait()
	for m := range queue {
		if !c.wait(dir, m.due) {
			continue
		}
		if m.data == nil {
			closeWrite(to)
			return
		}
		if c.p.tap != nil && !c.p.tap(c, dir, m.data) {
			continue
		}
		if _, err := to.Write(m.data); err != nil {
			c.close()
		}
	}
}

// wait holds a message back until it may pass and reports false if it never will.
func (c *proxyConn) wait(dir Direction, due time.Time) bool {
	for {
		c.p.mu.Lock()
		w, changed := c.p.ways[dir], c.p.changed
		early := time.Until(due)
		if w.hole && early <= 0 && !w.frozen {
			c.lossy = true
		}
		c.p.mu.Unlock()
		switch {
		case early > 0:
			timer := time.NewTimer(early)
			select {
			case <-timer.C:
			case <-c.done:
				timer.Stop()
				return false
			}
		case w.frozen:
			select {
			case <-changed:
			case <-c.done:
				return false
			}
		default:
			return !w.hole
		}
	}
}

// closeWrite tells the other side that nothing more will come, and leaves its own words to be delivered.
func closeWrite(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.CloseWrite()
	}
}
