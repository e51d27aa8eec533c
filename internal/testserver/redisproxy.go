package testserver

import (
	"bufio"
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// RedisProxy is a Proxy that understands the Redis protocol, so that it can do something to single requests and replies.
type RedisProxy struct {
	*Proxy

	mu         sync.Mutex
	recordings []*Recording
	traps      []*Trap
}

// Match selects requests by their words, the command's name first. It must not call the proxy.
type Match func(request []string) bool

// Named matches commands by name, in upper or lower case; without names it matches all commands.
func Named(names ...string) Match {
	return func(request []string) bool {
		return len(names) == 0 || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, request[0]) })
	}
}

// redisConn is what a RedisProxy knows of a connection, under its mutex.
type redisConn struct {
	waiting []*Trap // one for each request under way, nil if its reply may pass
	stalled bool    // no reply passes any more
}

// NewRedisProxy starts a proxy to the Redis at target (host:port).
func NewRedisProxy(tb testing.TB, target string) *RedisProxy {
	tb.Helper()
	p := &RedisProxy{}
	p.Proxy = newProxy(tb, target, readRESP, p.see)
	return p
}

// DropReply lets the first matching request from now on reach the server and swallows its reply, and all that follows
// on that connection, as a network that dies in between would. The connection stays open: the client has to time out.
// Mind that the first EVALSHA of a script is answered NOSCRIPT.
func (p *RedisProxy) DropReply(match Match) *Trap { return p.trap(match, stall) }

// CutReply is DropReply, but closes the client's connection instead of the reply.
func (p *RedisProxy) CutReply(match Match) *Trap { return p.trap(match, cut) }

// Hold keeps the first matching request from now on, and all that follows on that connection, from the server until
// Release, even if the client closes the connection meanwhile. Other connections go on.
func (p *RedisProxy) Hold(match Match) *Trap { return p.trap(match, hold) }

// Record collects the matching requests that are sent to the server from now on.
func (p *RedisProxy) Record(match Match) *Recording {
	r := &Recording{p: p, match: match}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recordings = append(p.recordings, r)
	return r
}

func (p *RedisProxy) trap(match Match, kind trapKind) *Trap {
	t := &Trap{tb: p.tb, match: match, kind: kind, caught: make(chan struct{}), released: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traps = append(p.traps, t)
	return t
}

func (p *RedisProxy) see(c *proxyConn, dir Direction, data []byte) bool {
	if dir == ToClient {
		return p.reply(c, data)
	}
	if t := p.request(c, data); t != nil {
		select {
		case <-t.released:
		case <-c.done:
			return false
		}
	}
	return true
}

// request notes a request and returns the trap that holds it, if any.
func (p *RedisProxy) request(c *proxyConn, data []byte) *Trap {
	words := split(data)
	if len(words) == 0 {
		return nil // an empty line, which the server ignores
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.recordings {
		if r.match(words) {
			r.requests = append(r.requests, request{words, data})
		}
	}
	var t *Trap
	if i := slices.IndexFunc(p.traps, func(t *Trap) bool { return t.match(words) }); i >= 0 {
		t = p.traps[i]
		p.traps = slices.Delete(p.traps, i, i+1)
	}
	// What answers a subscription is a push message, or starts a stream in which requests and replies are no pairs.
	if !strings.HasSuffix(strings.ToLower(words[0]), "subscribe") {
		if t != nil && t.kind == hold {
			c.redis.waiting = append(c.redis.waiting, nil)
		} else {
			c.redis.waiting = append(c.redis.waiting, t)
		}
	}
	if t == nil || t.kind != hold {
		return nil
	}
	close(t.caught)
	return t
}

func (p *RedisProxy) reply(c *proxyConn, data []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.redis.stalled {
		return false
	}
	if data[0] == '>' || len(c.redis.waiting) == 0 {
		return true
	}
	t := c.redis.waiting[0]
	c.redis.waiting = c.redis.waiting[1:]
	if t == nil {
		return true
	}
	t.reply = string(data)
	close(t.caught)
	c.redis.stalled = true
	if t.kind == cut {
		c.close()
	}
	return false
}

// split returns the words of a request.
func split(data []byte) []string {
	if data[0] != '*' {
		return strings.Fields(string(data))
	}
	v, _ := decode(bufio.NewReader(bytes.NewReader(data)))
	list, _ := v.([]any)
	words := make([]string, len(list))
	for i := range list {
		words[i], _ = list[i].(string)
	}
	return words
}

type trapKind int

const (
	stall trapKind = iota
	cut
	hold
)

// Trap waits for one request.
type Trap struct {
	tb    testing.TB
	match Match
	kind  trapKind

	caught   chan struct{}
	reply    string // before caught is closed
	released chan struct{}
	once     sync.Once
}

// Wait waits until the reply was swallowed, and returns it as it was sent, or until the request is being held.
func (t *Trap) Wait() (reply string) {
	t.tb.Helper()
	select {
	case <-t.caught:
	case <-time.After(doTime):
		t.tb.Fatal("testserver: no matching request came by")
	}
	return t.reply
}

// Caught is closed when Wait would return.
func (t *Trap) Caught() <-chan struct{} { return t.caught }

// Release lets a held request go on. It has no effect on other traps.
func (t *Trap) Release() { t.once.Do(func() { close(t.released) }) }

// Recording is a growing list of requests.
type Recording struct {
	p        *RedisProxy
	match    Match
	requests []request // under p.mu
}

type request struct {
	words []string
	data  []byte
}

// Len returns the number of requests so far.
func (r *Recording) Len() int {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return len(r.requests)
}

// Wait waits until there are n requests.
func (r *Recording) Wait(n int) {
	r.p.tb.Helper()
	if !poll(doTime, func() bool { return r.Len() >= n }) {
		r.p.tb.Fatalf("testserver: %d of %d requests came by", r.Len(), n)
	}
}

// Requests returns the words of all requests so far.
func (r *Recording) Requests() [][]string {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	var all [][]string
	for _, q := range r.requests {
		all = append(all, q.words)
	}
	return all
}

// Replay sends a recorded request once more, as a network that delivers a duplicate late would, and returns the reply.
func (r *Recording) Replay(i int) (any, error) {
	r.p.mu.Lock()
	data := r.requests[i].data
	r.p.mu.Unlock()
	r.p.Proxy.mu.Lock()
	target := r.p.target
	r.p.Proxy.mu.Unlock()
	c, err := dialRESP(target)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.send(data)
}
