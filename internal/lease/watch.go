package lease

import (
	"strings"

	"github.com/fencelock/fencelock"
)

// Lose is for a driver that sees the end of one hold where many share a Done:
// it tells the holder why. It does nothing if the attempt is not held, or not yet;
// then the next renewal tells.
func (l *Locker) Lose(r Request, why fencelock.LostError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.lines[strings.TrimPrefix(r.Key, l.def.Prefix)]
	if ln != nil && ln.hold != nil && ln.hold.r.Attempt == r.Attempt {
		l.lose(ln.hold, why)
	}
}

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
