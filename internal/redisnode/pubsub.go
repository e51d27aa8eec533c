package redisnode

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	pingEvery    = 3 * time.Second // of silence on the connection; twice that is a dead one
	reconnectMin = 20 * time.Millisecond
	reconnectMax = time.Second
)

// subscriber holds the one pub/sub connection of a Node.
type subscriber struct {
	node *Node

	mu   sync.Mutex
	subs map[string]*subscription // wanted
	link *link                    // nil unless running
}

// subscription is one channel.
type subscription struct {
	handlers []*handler    // never changed in place
	ready    chan struct{} // closed when the server has confirmed, or err is set
	err      error
}

type handler struct {
	f func(payload string, gap bool)
}

// link is the goroutines that keep the connection up, from the first Subscribe
// to Idle. The fields below stop are guarded by subscriber.mu.
type link struct {
	kick chan struct{} // capacity 1: what is wanted has changed
	stop chan struct{} // closed by Idle
	done chan struct{}

	asked   map[string]bool // subscribed to on this connection
	pending map[string]int  // confirmations on their way
}

// Subscribe listens on channel. It returns when the server has confirmed, with
// a function that ends it, or with the error that kept it from listening. f is
// called with each message, one at a time, and with gap set after a reconnection,
// when messages may have been missed. It must not block, and may be
// called once more while stop runs.
//
// All subscriptions of a Node share one connection, which stays, for the next
// Subscribe, until Idle.
func (n *Node) Subscribe(ctx context.Context, channel string, f func(payload string, gap bool)) (stop func(), err error) {
	s, h := &n.sub, &handler{f}
	s.mu.Lock()
	sub := s.subs[channel]
	if sub == nil {
		sub = &subscription{ready: make(chan struct{})}
		if s.link != nil && s.link.asked[channel] && s.link.pending[channel] == 0 {
			close(sub.ready)
		}
		if s.subs == nil {
			s.subs = make(map[string]*subscription)
		}
		s.subs[channel] = sub
	}
	sub.handlers = append(slices.Clone(sub.handlers), h)
	s.start()
	s.mu.Unlock()

	stop = func() { s.remove(channel, sub, h) }
	select {
	case <-sub.ready:
		if sub.err != nil {
			return nil, sub.err
		}
		return stop, nil
	case <-ctx.Done():
		stop()
		return nil, ctx.Err()
	}
}

// Idle ends the pub/sub connection if nothing is subscribed to.
func (n *Node) Idle(ctx context.Context) error {
	s := &n.sub
	s.mu.Lock()
	l := s.link
	if l == nil || len(s.subs) > 0 {
		s.mu.Unlock()
		return nil
	}
	s.link = nil
	close(l.stop)
	s.mu.Unlock()
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// start sees to it that a link runs and knows of the change. The caller holds mu.
func (s *subscriber) start() {
	if s.link == nil {
		s.link = &link{
			kick: make(chan struct{}, 1),
			stop: make(chan struct{}),
			done: make(chan struct{}),
		}
		l := s.link
		s.node.Go(func() { s.run(l) })
	}
	select {
	case s.link.kick <- struct{}{}:
	default:
	}
}

func (s *subscriber) remove(channel string, sub *subscription, h *handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(sub.handlers, h)
	if i < 0 {
		return
	}
	sub.handlers = slices.Delete(slices.Clone(sub.handlers), i, i+1)
	if len(sub.handlers) == 0 && s.subs[channel] == sub {
		delete(s.subs, channel)
		if s.link != nil {
			s.start()
		}
	}
}

// run keeps a connection up until the link is stopped.
func (s *subscriber) run(l *link) {
	defer close(l.done)
	pause := reconnectMin
	for gap := false; ; gap = true {
		connected := time.Now()
		err := s.connect(l, gap)
		s.fail(l, err, true)
		if time.Since(connected) > reconnectMax {
			pause = reconnectMin
		}
		select {
		case <-l.stop:
			return
		case <-time.After(pause):
			pause = min(2*pause, reconnectMax)
		}
	}
}

// connect serves one connection until it breaks. Its subscriptions are written
// by a goroutine of its own, since writing may wait for the network.
func (s *subscriber) connect(l *link, gap bool) error {
	ps := s.node.client.Subscribe(context.Background())
	s.mu.Lock()
	l.asked, l.pending = make(map[string]bool), make(map[string]int)
	s.mu.Unlock()

	broken := make(chan struct{})
	writer := make(chan error, 1)
	s.node.Go(func() {
		err := s.write(l, ps, broken)
		_ = ps.Close() // ends the read below
		writer <- err
	})
	err := s.read(l, ps, gap)
	close(broken)
	_ = ps.Close()
	if werr := <-writer; werr != nil && !errors.Is(werr, redis.ErrClosed) {
		return werr // the cause; err only says that we closed the connection then
	}
	return err
}

// write asks the server for what is wanted until the connection is broken or
// the link stopped.
func (s *subscriber) write(l *link, ps *redis.PubSub, broken chan struct{}) error {
	for {
		s.mu.Lock()
		if s.link != l {
			s.mu.Unlock()
			return nil
		}
		var add, drop []string
		for c := range s.subs {
			if !l.asked[c] {
				add = append(add, c)
				l.asked[c] = true
				l.pending[c]++
			}
		}
		for c := range l.asked {
			if s.subs[c] == nil {
				drop = append(drop, c)
				delete(l.asked, c)
			}
		}
		s.mu.Unlock()
		var err error
		if len(drop) > 0 {
			err = ps.Unsubscribe(context.Background(), drop...)
		}
		if len(add) > 0 && err == nil {
			err = ps.Subscribe(context.Background(), add...)
		}
		if err != nil {
			return err
		}
		select {
		case <-l.kick:
		case <-broken:
			return nil
		case <-l.stop:
			return nil
		}
	}
}

// read dispatches what arrives until the connection breaks.
func (s *subscriber) read(l *link, ps *redis.PubSub, gap bool) error {
	silent := false
	for {
		msg, err := ps.ReceiveTimeout(context.Background(), pingEvery)
		var timeout net.Error
		var refused redis.Error
		switch {
		case err == nil:
			silent = false
		case errors.As(err, &timeout) && timeout.Timeout() && !silent:
			silent = true
			if err := ps.Ping(context.Background()); err != nil {
				return err
			}
			continue
		case errors.As(err, &refused):
			s.fail(l, err, false) // such as NOPERM for a channel
			continue
		default:
			return err
		}
		switch m := msg.(type) {
		case *redis.Message:
			for _, h := range s.handlers(m.Channel) {
				h.f(m.Payload, false)
			}
		case *redis.Subscription:
			if m.Kind == "subscribe" && s.confirm(l, m.Channel) && gap {
				for _, h := range s.handlers(m.Channel) {
					h.f("", true)
				}
			}
		}
	}
}

func (s *subscriber) handlers(channel string) []*handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sub := s.subs[channel]; sub != nil {
		return sub.handlers
	}
	return nil
}

// confirm notes a confirmation and reports whether the channel is wanted and
// subscribed to.
func (s *subscriber) confirm(l *link, channel string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.pending[channel]--
	sub := s.subs[channel]
	// An older confirmation, for a subscription that was dropped meanwhile,
	// proves nothing.
	if s.link != l || sub == nil || !l.asked[channel] || l.pending[channel] > 0 {
		return false
	}
	select {
	case <-sub.ready:
	default:
		close(sub.ready)
	}
	return true
}

// fail tells err to those who wait for a confirmation. If the connection is
// gone, the confirmed ones stay, for the next connection.
func (s *subscriber) fail(l *link, err error, gone bool) {
	if err == nil {
		err = errors.New("redis: the pub/sub connection was closed")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != l {
		return
	}
	for c, sub := range s.subs {
		select {
		case <-sub.ready:
			continue
		default:
		}
		if gone || l.asked[c] {
			sub.err = err
			close(sub.ready)
			delete(s.subs, c)
			delete(l.asked, c)
			l.pending[c] = 0
		}
	}
}
