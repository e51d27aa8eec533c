package zk

import (
	"context"
	"errors"
	"strings"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock"
)

// holder is who is first in a queue.
type holder struct {
	path    string // "" if nobody is
	zxid    int64
	since   time.Time
	waiters int
}

// Status implements lease.Inspector.
func (d *driver) Status(ctx context.Context, key string) (s fencelock.Status, err error) {
	err = d.visit(func(session *session) error {
		h, err := d.holder(ctx, session, d.parent(key))
		if err != nil || h.path == "" {
			return err
		}
		s = fencelock.Status{Held: true, Since: h.since, Waiters: h.waiters}
		s.Token, err = tokenOf(h.zxid)
		return err
	})
	return s, err
}

// Break implements lease.Inspector. A node's name is never given twice.
func (d *driver) Break(ctx context.Context, key string, first fencelock.Token) error {
	return d.visit(func(session *session) error {
		h, err := d.holder(ctx, session, d.parent(key))
		if err != nil || h.path == "" {
			return err
		}
		if t, err := tokenOf(h.zxid); err != nil || t != first {
			return err
		}
		_, err = ask(ctx, session, func(zk *gozk.Conn) (struct{}, error) { return struct{}{}, zk.Delete(h.path, -1) })
		if errors.Is(err, gozk.ErrNoNode) {
			return nil
		}
		return err
	})
}

func (d *driver) parent(key string) string { return d.tree.lock(strings.TrimPrefix(key, d.prefix)) }

// visit runs f in the session that there is, or in one of its own.
func (d *driver) visit(f func(*session) error) error {
	d.mu.Lock()
	c := d.open
	if c == nil || c.ended() {
		c = d.start()
		defer c.stop()
	}
	d.mu.Unlock()
	return f(c.session)
}

// holder looks who has the lock. Of several nodes with one number, which there are
// when the counter has come to its end, it is the one that was created first.
func (d *driver) holder(ctx context.Context, s *session, parent string) (h holder, err error) {
	for {
		children, err := d.children(ctx, s, parent)
		first, n := front(children)
		if err != nil || n == 0 {
			return h, err
		}
		for _, child := range append(tied(children, first), first) {
			stat, err := look(ctx, s, parent+"/"+child)
			switch {
			case errors.Is(err, gozk.ErrNoNode): // it has gone meanwhile
			case err != nil:
				return h, err
			case h.path == "" || stat.Czxid < h.zxid:
				h = holder{parent + "/" + child, stat.Czxid, time.UnixMilli(stat.Ctime), n - 1}
			}
		}
		if h.path != "" {
			return h, nil
		}
	}
}
