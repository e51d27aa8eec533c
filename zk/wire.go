package zk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// The client library cannot resume a session on a connection of ours, does not
// tell the time-out that the server has granted, and waits ten time-outs for an
// answer to its greeting. So the greeting is exchanged here, and replayed to it.

// greeting is what a server answers to a new connection.
type greeting struct {
	raw      []byte
	timeout  time.Duration
	id       int64 // 0: the session has expired
	password []byte
}

// hello asks for a session, a new one if id is 0.
type hello struct {
	seen     int64 // a server that has not come as far refuses
	timeout  time.Duration
	id       int64
	password []byte
}

const passwordSize = 16

func (h hello) encode() []byte {
	b := make([]byte, 4, 64)
	b = binary.BigEndian.AppendUint32(b, 0) // version of the protocol
	b = binary.BigEndian.AppendUint64(b, uint64(h.seen))
	b = binary.BigEndian.AppendUint32(b, uint32(h.timeout.Milliseconds()))
	b = binary.BigEndian.AppendUint64(b, uint64(h.id))
	password := h.password
	if password == nil {
		password = make([]byte, passwordSize)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(password)))
	b = append(b, password...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// greet exchanges greetings. It obeys ctx.
func greet(ctx context.Context, c net.Conn, h hello) (g greeting, err error) {
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if !stop() && err == nil {
			err = ctx.Err()
		}
	}()
	if _, err := c.Write(h.encode()); err != nil {
		return g, err
	}
	head := make([]byte, 4)
	if _, err := io.ReadFull(c, head); err != nil {
		return g, fmt.Errorf("the server gives no session: %w", err)
	}
	const least, most = 4 + 4 + 8 + 4, 1 << 10
	size := binary.BigEndian.Uint32(head)
	if size < least || size > most {
		return g, errors.New("what answers is no ZooKeeper")
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(c, body); err != nil {
		return g, err
	}
	g.raw = append(head, body...)
	g.timeout = time.Duration(binary.BigEndian.Uint32(body[4:])) * time.Millisecond
	g.id = int64(binary.BigEndian.Uint64(body[8:]))
	if n := binary.BigEndian.Uint32(body[16:]); n <= size-least {
		g.password = body[least : least+n]
	}
	return g, nil
}

// wire is a connection on which greetings have been exchanged, as the client
// library sees it: it swallows the library's greeting and answers with the
// server's.
type wire struct {
	net.Conn
	most   time.Duration // a Read waits no longer
	heard  func()
	wrote  func(request []byte)
	closed sync.Once

	answer  []byte // of the greeting that is not read yet
	greeted bool
}

func (w *wire) Write(p []byte) (int, error) {
	if !w.greeted {
		w.greeted = true
		return len(p), nil
	}
	n, err := w.Conn.Write(p)
	if err == nil {
		w.wrote(p)
	}
	return n, err
}

func (w *wire) Read(p []byte) (int, error) {
	if len(w.answer) > 0 {
		n := copy(p, w.answer)
		w.answer = w.answer[n:]
		return n, nil
	}
	n, err := w.Conn.Read(p)
	if n > 0 {
		w.heard()
	}
	return n, err
}

// SetReadDeadline caps the library's: a silent server is left while there is time
// to go to another.
func (w *wire) SetReadDeadline(t time.Time) error {
	if latest := time.Now().Add(w.most); t.After(latest) {
		t = latest
	}
	return w.Conn.SetReadDeadline(t)
}

func (w *wire) Close() (err error) {
	w.closed.Do(func() { err = w.Conn.Close() })
	return err
}
