package lease

import "time"

// Passing makes a cohort lock of the distributed one (Dice, Marathe, Shavit,
// "Lock Cohorting", PPoPP 2012): the goroutines of one process pass a hold among
// themselves, without a round trip, for one turn; then other processes have
// theirs. Each holder has its own token out of the grant's block.

const (
	turnHandOffs = 20                    // a turn is worth the cost of so many hand-offs
	turnMax      = 25 * time.Millisecond // and never keeps other processes out for longer
)

// turn bounds how long a hold stays in this process.
type turn struct {
	passes int
	soft   time.Time // until then anybody in line is served
	hard   time.Time // until then those who were in line at its start
	seq    uint64    // the last of those
}

// newTurn starts a turn; l.mu is held.
func (l *Locker) newTurn(h *hold, seq uint64, now time.Time) turn {
	hard := min(turnMax, h.g.TTL/4)
	return turn{
		soft: now.Add(min(hard, turnHandOffs*l.handOff.value)),
		hard: now.Add(hard),
		seq:  seq,
	}
}

func (t turn) over(w *waiter, now time.Time) bool {
	return now.After(t.hard) || now.After(t.soft) && w.seq > t.seq
}

// pass gives the hold to the first waiter in line if it can serve it; l.mu is
// held. Otherwise the hold is to be released at the server.
func (l *Locker) pass(h *hold, now time.Time) (delivery, bool) {
	w := h.ln.head
	if w == nil ||
		h.turn.passes >= w.set.Passes || h.turn.over(w, now) ||
		h.token >= h.g.Last || !w.fits(h.r.TTL, h.token+1) ||
		h.deadline.Sub(now) < h.g.TTL/2 ||
		l.drifted(h.checked, now, h.g.TTL) {
		return delivery{}, false
	}
	h.ln.remove(w)
	h.turn.passes++
	h.token++
	return l.hand(h, w, true), true
}

// estimate is a slowly rising minimum: of trips measured under load, the short
// ones tell what a hand-off costs. With a moving average the turns of several
// processes drive each other apart.
type estimate struct{ value time.Duration }

func (e *estimate) add(d time.Duration) {
	if e.value == 0 || d < e.value {
		e.value = d
	} else {
		e.value += min(d-e.value, e.value) / 64
	}
}
