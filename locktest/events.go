package locktest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fencelock/fencelock"
)

type told struct {
	fencelock.Event
	value any // of the ctx
}

// watcher observes a Locker.
type watcher struct {
	mu     sync.Mutex
	events map[string][]told // by name
	inside atomic.Int32
	k      *kit
}

type valueKey struct{}

func (w *watcher) observe(ctx context.Context, e fencelock.Event) {
	if w.inside.Add(1) != 1 {
		w.k.Error("two events at the same time")
	}
	w.mu.Lock()
	w.events[e.Name] = append(w.events[e.Name], told{e, ctx.Value(valueKey{})})
	w.mu.Unlock()
	w.inside.Add(-1)
}

func (w *watcher) of(name string) []told {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events[name])
}

func (w *watcher) kinds(name string) (kinds []fencelock.EventKind) {
	for _, e := range w.of(name) {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func eventsInOrder(k *kit) {
	w := &watcher{events: make(map[string][]told), k: k}
	l := k.locker(k.short(), fencelock.Observe(w.observe))
	ctx := context.WithValue(k.ctx(long), valueKey{}, "value")
	has := func(name string, kind fencelock.EventKind) func() bool {
		return func() bool { return slices.Contains(w.kinds(name), kind) }
	}

	held := k.name()
	lock, err := l.Acquire(ctx, held)
	if err != nil {
		k.Fatal(err)
	}
	k.until("a renewal is reported", k.b.TTL+soon, has(held, fencelock.EventRenew))
	if _, err := l.TryAcquire(ctx, held); !errors.Is(err, fencelock.ErrHeld) {
		k.Fatal(err)
	}
	k.release(lock)
	k.until("the release is reported", soon, has(held, fencelock.EventRelease))
	w.check(held, lock.Token(), fencelock.EventAcquire, fencelock.EventRenew, fencelock.EventAcquire, fencelock.EventRelease)

	if k.b.Delete == nil {
		return
	}
	lost := k.name()
	lock, err = l.Acquire(ctx, lost)
	if err != nil {
		k.Fatal(err)
	}
	k.b.Delete(k, lost)
	k.lost(lock, k.b.TTL+soon)
	k.until("the loss is reported", soon, has(lost, fencelock.EventLose))
	_ = lock.Release(ctx)
	w.check(lost, lock.Token(), fencelock.EventAcquire, fencelock.EventRenew, fencelock.EventLose, fencelock.EventRelease)
}

// check compares the events of name: their kinds in order (renewals as often
// as they come, or never), and what each must carry.
func (w *watcher) check(name string, token fencelock.Token, want ...fencelock.EventKind) {
	w.k.Helper()
	events := w.of(name)
	at := 0
	for _, e := range events {
		for at < len(want) && want[at] != e.Kind && want[at] == fencelock.EventRenew {
			at++
		}
		switch {
		case e.Kind == fencelock.EventRenew && at < len(want) && want[at] == e.Kind: // and perhaps more of them
		case e.Kind == fencelock.EventRelease && at == len(want): // a release of what is lost may be reported or not
		case at == len(want) || want[at] != e.Kind:
			w.k.Fatalf("the events of %q are %v, want %v", name, w.kinds(name), want)
		default:
			at++
		}
		if e.Start.IsZero() {
			w.k.Errorf("%s without Start", e.Kind)
		}
		if e.value != "value" {
			w.k.Errorf("the ctx of %s does not carry the values of Acquire's", e.Kind)
		}
		refused := e.Kind == fencelock.EventAcquire && e.Err != nil
		if refused && (e.Token != 0 || !errors.Is(e.Err, fencelock.ErrHeld)) || !refused && e.Token != token {
			w.k.Errorf("%s carries token %d and %v, the lock's token is %d", e.Kind, e.Token, e.Err, token)
		}
		if e.Kind == fencelock.EventLose && !errors.Is(e.Err, fencelock.ErrLost) {
			w.k.Errorf("a loss carries %v", e.Err)
		}
	}
	for at < len(want) && (want[at] == fencelock.EventRenew || want[at] == fencelock.EventRelease && slices.Contains(want, fencelock.EventLose)) {
		at++
	}
	if at < len(want) {
		w.k.Fatalf("the events of %q are %v, want %v", name, w.kinds(name), want)
	}
}
