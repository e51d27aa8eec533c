package mem

import (
	"context"
	"errors"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/locktest"
)

func TestFence(t *testing.T) {
	f := NewFence()
	locktest.RunFence(t, func(testing.TB) fencelock.Fence { return f })
}

func TestTokens(t *testing.T) {
	s := NewTokens()
	locktest.RunTokens(t, func(testing.TB) fencelock.TokenSource { return s })
}

func TestFenceWrite(t *testing.T) {
	ctx, f, failed := context.Background(), NewFence(), errors.New("disk full")
	var data string
	put := func(s string) func() error { return func() error { data = s; return nil } }
	steps := []struct {
		write func(context.Context, string, fencelock.Token, func() error) error
		token fencelock.Token
		do    func() error
		want  error
		data  string
	}{
		{f.Write, 5, put("a"), nil, "a"},
		{f.Write, 5, put("b"), nil, "b"},
		{f.Write, 4, put("c"), fencelock.ErrStale, "b"},
		{f.WriteOnce, 5, put("d"), fencelock.ErrStale, "b"},
		{f.WriteOnce, 6, func() error { return failed }, failed, "b"},
		{f.WriteOnce, 6, put("e"), nil, "e"},
		{f.WriteOnce, 6, put("f"), fencelock.ErrStale, "e"},
		{f.Write, 5, put("g"), fencelock.ErrStale, "e"},
		{f.WriteOnce, 7, put("h"), nil, "h"},
	}
	for i, s := range steps {
		if err := s.write(ctx, "n", s.token, s.do); !errors.Is(err, s.want) || err != nil && s.want == nil {
			t.Errorf("step %d: %v, want %v", i, err, s.want)
		}
		if data != s.data {
			t.Errorf("step %d: the data is %q, want %q", i, data, s.data)
		}
	}
}
