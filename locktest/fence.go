package locktest

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fencelock/fencelock"
)

// RunFence checks that what open returns is a fence. Each call of open returns
// an instance that shares its records with the others, as in another process.
func RunFence(t *testing.T, open func(t testing.TB) fencelock.Fence) {
	ctx, f, other := context.Background(), open(t), open(t)
	admit := func(t *testing.T, f fencelock.Fence, name string, token, want fencelock.Token) {
		t.Helper()
		err := f.Admit(ctx, name, token)
		if want == 0 {
			if err != nil {
				t.Errorf("Admit(%d): %v", token, err)
			}
			return
		}
		var stale *fencelock.StaleError
		if !errors.As(err, &stale) || !errors.Is(err, fencelock.ErrStale) {
			t.Errorf("Admit(%d) after %d: %v, want ErrStale", token, want, err)
		} else if stale.Name != name || stale.Have != token || stale.Want != want {
			t.Errorf("Admit(%d) after %d: %+v", token, want, *stale)
		}
	}
	t.Run("RefusesLowerTokens", func(t *testing.T) {
		name := newName(t)
		admit(t, f, name, 5, 0)
		admit(t, f, name, 5, 0) // a holder may write often
		admit(t, other, name, 5, 0)
		admit(t, other, name, 4, 5)
		admit(t, f, name, 10, 0) // a number, not a text
		admit(t, other, name, 9, 10)
		admit(t, f, name, 5, 10)
		admit(t, f, name+"/b", 1, 0) // another name
		admit(t, f, name, 10, 0)
	})
	t.Run("LargeTokens", func(t *testing.T) {
		name := newName(t)
		for _, token := range []fencelock.Token{1<<53 - 1, 1 << 53, 1<<53 + 1, math.MaxInt64 - 1, math.MaxInt64} {
			admit(t, f, name, token, 0)
			admit(t, other, name, token-1, token)
		}
	})
	t.Run("RefusesWhatIsNoToken", func(t *testing.T) {
		name := newName(t)
		for _, token := range []fencelock.Token{0, -1, math.MinInt64} {
			if err := f.Admit(ctx, name, token); err == nil || errors.Is(err, fencelock.ErrStale) {
				t.Errorf("Admit(%d): %v, want another error than ErrStale", token, err)
			}
		}
		admit(t, f, name, 1, 0)
	})
	t.Run("RefusesAtOnce", func(t *testing.T) { // no lower one is admitted after a higher one
		name := newName(t)
		var highest atomic.Int64
		var all sync.WaitGroup
		for g := range 8 {
			all.Go(func() {
				for i := range 50 {
					token := int64(i*8 + g + 1)
					before := highest.Load()
					err := []fencelock.Fence{f, other}[g%2].Admit(ctx, name, fencelock.Token(token))
					switch {
					case err == nil && token < before:
						t.Errorf("Admit(%d) after %d was admitted", token, before)
					case err == nil:
						for h := highest.Load(); h < token && !highest.CompareAndSwap(h, token); h = highest.Load() {
						}
					case !errors.Is(err, fencelock.ErrStale):
						t.Errorf("Admit(%d): %v", token, err)
					}
				}
			})
		}
		all.Wait()
		admit(t, f, name, 400, 0)
	})
	t.Run("ObeysContext", func(t *testing.T) {
		name := newName(t)
		done, cancel := context.WithCancel(ctx)
		cancel()
		if err := f.Admit(done, name, 7); !errors.Is(err, context.Canceled) {
			t.Errorf("Admit with a done ctx: %v", err)
		}
	})
}

// RunTokens checks that what open returns is a source of tokens. Each call of
// open returns an instance that shares its counters with the others, as in
// another process.
func RunTokens(t *testing.T, open func(t testing.TB) fencelock.TokenSource) {
	ctx, sources := context.Background(), []fencelock.TokenSource{open(t), open(t)}
	t.Run("Rise", func(t *testing.T) {
		for _, name := range []string{newName(t), newName(t)} {
			var last fencelock.Token
			for i := range 10 {
				token, err := sources[i%2].Next(ctx, name)
				if err != nil {
					t.Fatal(err)
				}
				if token <= last {
					t.Errorf("Next is %d after %d", token, last)
				}
				last = token
			}
		}
	})
	t.Run("RiseForAll", func(t *testing.T) {
		name, seen, mu := newName(t), make(map[fencelock.Token]bool), sync.Mutex{}
		var all sync.WaitGroup
		for g := range 8 {
			all.Go(func() {
				var last fencelock.Token
				for range 50 {
					token, err := sources[g%2].Next(ctx, name)
					mu.Lock()
					twice := seen[token]
					seen[token] = true
					mu.Unlock()
					if err != nil || twice || token <= last {
						t.Errorf("Next is %d, %v after %d (somebody has had it: %t)", token, err, last, twice)
						return
					}
					last = token
				}
			})
		}
		all.Wait()
	})
	t.Run("ObeysContext", func(t *testing.T) {
		done, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := sources[0].Next(done, newName(t)); !errors.Is(err, context.Canceled) {
			t.Errorf("Next with a done ctx: %v", err)
		}
	})
}
