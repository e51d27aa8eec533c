package lease

import "github.com/fencelock/fencelock"

// watch waits for one Done channel, however many holds share it.
type watch struct {
	holds map[*hold]struct{}
	stop  chan struct{}
}

// watch tells h's holder when the backend reports the loss; l.mu is held.
func (l *Locker) watch(h *hold) {
	if h.g.Done == nil {
		return
	}
	w := l.watches[h.g.Done]
	if w == nil {
		w = &watch{holds: make(map[*hold]struct{}), stop: make(chan struct{})}
		l.watches[h.g.Done] = w
		l.start()
		go l.sessionGone(h.g.Done, w)
	}
	w.holds[h] = struct{}{}
}

// unwatch is watch's opposite; l.mu is held.
func (l *Locker) unwatch(h *hold) {
	w := l.watches[h.g.Done]
	if w == nil {
		return
	}
	if delete(w.holds, h); len(w.holds) == 0 {
		delete(l.watches, h.g.Done)
		close(w.stop)
	}
}

func (l *Locker) sessionGone(gone <-chan struct{}, w *watch) {
	defer l.finish()
	select {
	case <-w.stop:
	case <-gone:
		l.mu.Lock()
		defer l.mu.Unlock()
		for h := range w.holds {
			l.lose(h, fencelock.LostError{Reason: fencelock.SessionGone})
		}
	}
}
