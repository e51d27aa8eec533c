package mem

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/locktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	locktest.Run(t, backend(NewServer(), New))
}

// backend describes a Server to the suite. open is New, or something worse.
func backend(s *Server, open func(*Server, ...fencelock.Option) (*Locker, error)) locktest.Backend {
	get := func(t testing.TB, s *Server, opts []fencelock.Option) *Locker {
		t.Helper()
		l, err := open(s, opts...)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	return locktest.Backend{
		New: func(t testing.TB, opts ...fencelock.Option) locktest.Locker { return get(t, s, opts) },
		Via: func(t testing.TB, opts ...fencelock.Option) (locktest.Locker, locktest.Link) {
			l := get(t, s, opts)
			return l, l.Link()
		},
		Refused: func(t testing.TB, opts ...fencelock.Option) locktest.Locker {
			l := get(t, s, opts)
			l.Link().Cut()
			return l
		},
		Broken: func(t testing.TB, opts ...fencelock.Option) locktest.Locker {
			broken := NewServer()
			broken.Fail(errors.New("permission denied"))
			return get(t, broken, opts)
		},
		Delete:   func(_ testing.TB, name string) { s.Expire(name) },
		Residue:  func(testing.TB) []string { return s.residue() },
		Commands: func(testing.TB) int { return s.requests() },
	}
}

func (s *Server) residue() (left []string) {
	s.mu.Lock()
	defer s.unlock()
	s.settleAll()
	for name, e := range s.names {
		if e.owner != "" || len(e.queue) > 0 {
			left = append(left, name)
		}
	}
	return left
}

func (s *Server) requests() int {
	s.mu.Lock()
	defer s.unlock()
	return s.served
}
