package lease

import (
	"container/heap"
	"context"
	"errors"
	"time"

	"github.com/fencelock/fencelock"
)

// A hold is renewed a third of its TTL after the last confirmed request. All
// holds of a Locker share one heap and one timer: a timer each would fire each in
// a goroutine of its own.

// alarm is a hold's place in the heap: when its next renewal is to be sent or,
// while one is on its way, its deadline. Guarded by Locker.mu.
type alarm struct {
	at       time.Time
	renewing bool
	index    int // in the heap, 0 is the first; -1: not in it
}

type alarms struct {
	heap  []*hold
	timer *time.Timer
	armed time.Time // when the timer fires, zero if it does not
}

func (a *alarms) Len() int           { return len(a.heap) }
func (a *alarms) Less(i, j int) bool { return a.heap[i].alarm.at.Before(a.heap[j].alarm.at) }
func (a *alarms) Swap(i, j int) {
	a.heap[i], a.heap[j] = a.heap[j], a.heap[i]
	a.heap[i].alarm.index, a.heap[j].alarm.index = i, j
}
func (a *alarms) Push(x any) {
	h := x.(*hold)
	h.alarm.index = len(a.heap)
	a.heap = append(a.heap, h)
}
func (a *alarms) Pop() any {
	last := len(a.heap) - 1
	h := a.heap[last]
	a.heap[last] = nil
	a.heap = a.heap[:last]
	h.alarm.index = -1
	return h
}

func renewEvery(ttl time.Duration) time.Duration { return ttl / 3 }

// schedule puts a new hold into the heap; l.mu is held.
func (l *Locker) schedule(h *hold) {
	h.alarm.at = earlier(h.g.Since.Add(renewEvery(h.g.TTL)), h.deadline)
	heap.Push(&l.alarms, h)
	l.arm()
}

// reschedule moves a hold's next renewal; l.mu is held.
func (l *Locker) reschedule(h *hold, at time.Time) {
	h.alarm.at = earlier(at, h.deadline)
	heap.Fix(&l.alarms, h.alarm.index)
}

func (l *Locker) unschedule(h *hold) {
	if h.alarm.index >= 0 {
		heap.Remove(&l.alarms, h.alarm.index)
	}
}

// arm sets the timer for the first alarm. A timer that fires too early, since
// its hold is gone, does no harm and saves setting it at every release.
func (l *Locker) arm() {
	a := &l.alarms
	if len(a.heap) == 0 {
		return
	}
	at := a.heap[0].alarm.at
	if !a.armed.IsZero() && !at.Before(a.armed) {
		return
	}
	a.armed = at
	if a.timer == nil {
		a.timer = time.AfterFunc(time.Until(at), l.fire)
	} else {
		a.timer.Reset(time.Until(at))
	}
}

// fire tells the holders whose deadline has come and sends the renewals that
// are due, with those that nearly are, in one batch a TTL.
func (l *Locker) fire() {
	now := time.Now()
	batches := make(map[time.Duration][]*hold)
	l.mu.Lock()
	l.alarms.armed = time.Time{}
	for len(l.alarms.heap) > 0 {
		h := l.alarms.heap[0]
		if !h.deadline.After(now) {
			l.lose(h, fencelock.LostError{Reason: fencelock.Expired})
			continue
		}
		ahead := renewEvery(h.g.TTL) / 8
		if h.alarm.renewing || h.alarm.at.After(now.Add(ahead)) {
			break
		}
		h.alarm.renewing = true
		l.reschedule(h, h.deadline) // set before the renewal is sent: it cannot delay the loss
		batches[h.g.TTL] = append(batches[h.g.TTL], h)
	}
	for ttl, batch := range batches {
		l.start()
		go l.renew(ttl, batch)
	}
	l.arm()
	l.mu.Unlock()
}

// renew sends one batch. It waits for a quarter of the TTL at most, so that one
// stuck renewal delays no other: what is confirmed by then counts, the rest is
// tried again.
func (l *Locker) renew(ttl time.Duration, batch []*hold) {
	defer l.events.flush()
	defer l.finish()
	l.mu.Lock()
	live := batch[:0]
	for _, h := range batch {
		if !h.ended { // none is sent after release
			live = append(live, h)
		}
	}
	rs, gs, errs := make([]Request, len(live)), make([]Grant, len(live)), make([]error, len(live))
	for i, h := range live {
		rs[i], gs[i] = h.r, h.g
	}
	l.mu.Unlock()
	if len(live) == 0 {
		return
	}
	at := l.instant()
	ctx, cancel := context.WithTimeout(context.Background(), ttl/4)
	l.driver.Renew(ctx, rs, gs, errs)
	cancel()

	l.mu.Lock()
	defer l.mu.Unlock()
	for i, h := range live {
		if !h.ended {
			l.renewed(h, gs[i], errs[i], at)
		}
	}
	l.arm()
}

// renewed takes in the answer to one renewal; l.mu is held.
func (l *Locker) renewed(h *hold, g Grant, err error, at instant) {
	h.alarm.renewing = false
	if h.handle.told {
		l.note(h.handle, fencelock.Event{Kind: fencelock.EventRenew, Start: at.mono, Err: err})
	}
	var lost *fencelock.LostError
	switch {
	case err == nil:
		h.confirmed(g.Since, g.TTL, at)
		l.reschedule(h, h.g.Since.Add(renewEvery(h.g.TTL)))
	case errors.As(err, &lost):
		l.lose(h, *lost)
	default:
		l.reschedule(h, at.mono.Add(renewEvery(h.g.TTL)/4))
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
