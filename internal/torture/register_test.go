package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
)

// register is the storage that the locks guard: a value for each name, written
// by those whose token is not less than the greatest before. It is never paused.
type register struct {
	l     net.Listener
	crew  sync.WaitGroup
	mu    sync.Mutex
	cells map[string]cell
	done  map[string]cell // writes that were admitted, by their value
	fence func(have, want fencelock.Token) bool
}

type cell struct {
	Token fencelock.Token
	Value string
}

// request is a write or, without a value, a read. The answer is the cell then, and
// whether the write was admitted.
type request struct {
	Name  string
	Token fencelock.Token
	Value string
}

type answer struct {
	cell
	Admitted bool
}

func newRegister() (*register, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &register{l: l, cells: make(map[string]cell), done: make(map[string]cell), fence: admits}
	r.crew.Go(r.serve)
	return r, nil
}

// admits is the fence.
func admits(have, greatest fencelock.Token) bool { return have >= greatest }

func (r *register) serve() {
	for {
		c, err := r.l.Accept()
		if err != nil {
			return
		}
		r.crew.Go(func() {
			defer c.Close()
			in, out := json.NewDecoder(c), json.NewEncoder(c)
			for {
				var q request
				if in.Decode(&q) != nil || out.Encode(r.apply(q)) != nil {
					return
				}
			}
		})
	}
}

func (r *register) apply(q request) answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := answer{cell: r.cells[q.Name]}
	if q.Value != "" && r.fence(q.Token, a.Token) {
		a.Admitted = true
		a.cell = cell{q.Token, q.Value}
		r.cells[q.Name], r.done[q.Value] = a.cell, a.cell
	}
	return a
}

func (r *register) get(name string) cell {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cells[name]
}

// admitted reports whether a write took place of whose answer nobody knows.
func (r *register) admitted(value string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, there := r.done[value]
	return there
}

func (r *register) close() {
	_ = r.l.Close()
	r.crew.Wait()
}

// storage is a worker's connection to the register.
type storage struct {
	mu  sync.Mutex
	c   net.Conn
	in  *json.Decoder
	out *json.Encoder
}

func dialStorage(addr string) (*storage, error) {
	c, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return nil, err
	}
	return &storage{c: c, in: json.NewDecoder(c), out: json.NewEncoder(c)}, nil
}

func (s *storage) ask(q request) (a answer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(s.out.Encode(q), s.in.Decode(&a)); err != nil {
		return a, fmt.Errorf("register: %w", err)
	}
	return a, nil
}
