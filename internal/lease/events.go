package lease

import (
	"context"
	"sync"

	"github.com/fencelock/fencelock"
)

// events calls the observer, in order, one event at a time and under no mutex:
// whoever flushes while nobody else does calls it for everybody.
type events struct {
	call func(context.Context, fencelock.Event)

	mu      sync.Mutex
	queue   []noted
	running bool
}

type noted struct {
	ctx context.Context
	e   fencelock.Event
}

func (ev *events) add(ctx context.Context, e fencelock.Event) {
	ev.mu.Lock()
	ev.queue = append(ev.queue, noted{ctx, e})
	ev.mu.Unlock()
}

// flush calls the observer for all that has been added. Nil has no observer.
func (ev *events) flush() {
	if ev == nil {
		return
	}
	ev.mu.Lock()
	if ev.running {
		ev.mu.Unlock()
		return
	}
	ev.running = true
	for len(ev.queue) > 0 {
		n := ev.queue[0]
		ev.queue = ev.queue[1:]
		ev.mu.Unlock()
		ev.call(n.ctx, n.e)
		ev.mu.Lock()
	}
	ev.running = false
	ev.mu.Unlock()
}

// note queues an event of k's hold; l.mu is held, so that events stand in the
// order of what they report.
func (l *Locker) note(k *handle, e fencelock.Event) {
	if l.events == nil {
		return
	}
	e.Name, e.Token = k.name, k.token
	l.events.add(k.ctx, e)
}

// emit reports an event that belongs to no hold.
func (l *Locker) emit(ctx context.Context, e fencelock.Event) {
	if l.events == nil {
		return
	}
	l.events.add(context.WithoutCancel(ctx), e)
	l.events.flush()
}

// Warn reports something that endangers the Locker's promises.
func (l *Locker) Warn(ctx context.Context, name string, err error) {
	l.emit(ctx, fencelock.Event{Kind: fencelock.EventWarn, Name: name, Err: err})
}
