package torture

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fencelock/fencelock"
)

// history is what was seen by everybody.
type history struct {
	ops    []*operation
	faults []fault
	killed map[int]time.Duration   // workers, and when
	done   func(value string) bool // whether a write took place
	final  map[string]cell         // of the register
}

// hold is a lock as its holder believed it to be.
type hold struct {
	*operation               // the acquire
	start      time.Duration // when it returned
	end        time.Duration // when it was given back or known to be lost
}

// holds returns the holds of a name by their beginning.
func (h *history) holds(name string) (holds []*hold) {
	type id struct{ worker, hold int }
	byID := make(map[id]*hold)
	for _, o := range h.ops {
		if o.Kind == acquire && o.Name == name && o.Result == ok {
			end := time.Duration(1<<63 - 1)
			if at, dead := h.killed[o.Worker]; dead {
				end = at
			}
			x := &hold{o, o.At, end}
			byID[id{o.Worker, o.ID}] = x
			holds = append(holds, x)
		}
	}
	for _, o := range h.ops {
		if x := byID[id{o.Worker, o.Hold}]; x != nil && (o.Kind == release || o.Kind == lost) {
			x.end = min(x.end, o.call)
		}
	}
	slices.SortFunc(holds, func(a, b *hold) int { return cmp.Compare(a.start, b.start) })
	return holds
}

// problem is a check that failed.
type problem struct{ check, what string }

func (p problem) String() string { return p.check + ": " + p.what }

// tokens rise: of two grants, one of which began after the other was there, the
// later has the greater token. And no token is given twice.
func (h *history) tokens(name string) (ps []problem) {
	holds := h.holds(name) // by their return
	seen := make(map[fencelock.Token]*hold)
	calls := slices.Clone(holds)
	slices.SortFunc(calls, func(a, b *hold) int { return cmp.Compare(a.call, b.call) })
	var top *hold
	i := 0
	for _, b := range calls {
		for ; i < len(holds) && holds[i].At < b.call; i++ {
			if top == nil || holds[i].Token > top.Token {
				top = holds[i]
			}
		}
		if top != nil && b.Token <= top.Token {
			ps = append(ps, problem{"tokens rise", fmt.Sprintf("%s: %s came after %s", name, b, top)})
		}
		if a := seen[b.Token]; a != nil {
			ps = append(ps, problem{"tokens are unique", fmt.Sprintf("%s: %s and %s", name, a, b)})
		}
		seen[b.Token] = b
	}
	return ps
}

func (x *hold) String() string {
	return fmt.Sprintf("token %d of worker %d (acquire %d, from %v to %v)", x.Token, x.Worker, x.ID, x.start, x.end)
}

// margin is what clocks and schedulers need to agree.
const margin = 10 * time.Millisecond

// exclusion: nobody believes to hold what somebody else believes to hold, but for
// what excuses that.
func (h *history) exclusion(name string, ttl time.Duration) (ps []problem) {
	var last *hold
	for _, x := range h.holds(name) {
		if last != nil && x.start+margin < last.end && !h.excused(last, x, ttl) {
			ps = append(ps, problem{"one holder", fmt.Sprintf("%s: %s and %s, for %v", name, last, x, min(last.end, x.end)-x.start)})
		}
		if last == nil || x.end > last.end {
			last = x
		}
	}
	return ps
}

// excused reports whether something has happened that no lock can stand: since
// the last renewal of the earlier hold, or what the later one knew when it asked.
func (h *history) excused(earlier, later *hold, ttl time.Duration) bool {
	from, to := min(earlier.call, later.start-2*ttl), min(earlier.end, later.end)+margin
	for _, f := range h.faults {
		mine := f.Worker == nobody || f.Worker == earlier.Worker
		if f.Excuses && mine && f.From < to && from < f.To {
			return true
		}
	}
	for _, o := range h.ops {
		if o.Kind == stall && o.Worker == earlier.Worker && o.call < to && later.start-2*ttl < o.At {
			return true
		}
	}
	return false
}

// The register as it should be.
type registerInput struct {
	token fencelock.Token
	value string // empty: a read
}

type registerOutput struct {
	admitted bool
	value    string // of a read
}

var fenced = porcupine.Model{
	Init: func() any { return cell{} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(cell), input.(registerInput), output.(registerOutput)
		switch {
		case in.value == "":
			return out.value == s.Value, s
		case out.admitted:
			return in.token >= s.Token, cell{in.token, in.value}
		}
		return in.token < s.Token, s
	},
	DescribeOperation: func(input, output any) string {
		in, out := input.(registerInput), output.(registerOutput)
		if in.value == "" {
			return "read " + out.value
		}
		return fmt.Sprintf("write %s by %d: %v", in.value, in.token, out.admitted)
	},
}

// register is linearizable, and its last state is that of the greatest token.
func (h *history) register(name string, draw func(porcupine.LinearizationInfo) string) (ps []problem) {
	var ops []porcupine.Operation
	var end time.Duration
	for _, o := range h.ops {
		if o.Kind != write || o.Name != name {
			continue
		}
		p := porcupine.Operation{
			ClientId: o.Worker, Input: registerInput{o.Token, o.Value}, Output: registerOutput{admitted: o.Result == ok},
			Call: int64(o.call), Return: int64(o.At),
		}
		if o.open || o.Result == failed {
			if !h.done(o.Value) {
				continue
			}
			p.Output, p.Return = registerOutput{admitted: true}, 1<<63-1
		}
		end = max(end, o.At)
		ops = append(ops, p)
	}
	ops = append(ops, porcupine.Operation{
		ClientId: 1000, Input: registerInput{}, Output: registerOutput{value: h.final[name].Value},
		Call: int64(end) + 1, Return: int64(end) + 2,
	})
	result, info := porcupine.CheckOperationsVerbose(fenced, ops, time.Minute)
	if result != porcupine.Ok {
		ps = append(ps, problem{"the register is linearizable", fmt.Sprintf("%s: %v of %d operations; %s", name, result, len(ops), draw(info))})
	}
	return ps
}

// count returns how many operations are of a kind and ended so.
func (h *history) count(k kind, r result) (n int) {
	for _, o := range h.ops {
		if o.Kind == k && !o.open && (r == "" || o.Result == r) {
			n++
		}
	}
	return n
}

// vacuous says why a run shows nothing. full is the part of a full run that it was: a
// short one may have had no luck.
func (h *history) vacuous(full float64, kinds []evil) (ps []problem) {
	few := func(what string, n, least int) {
		if n < least {
			ps = append(ps, problem{"the run shows something", fmt.Sprintf("%d %s, want %d", n, what, least)})
		}
	}
	few("grants", h.count(acquire, ok), int(1000*full)/(2-min(1, int(full))))
	few("losses told", h.count(lost, ""), int(full))
	few("writes fenced off", h.count(write, refused), int(full))
	for _, e := range kinds {
		n := 0
		for _, f := range h.faults {
			if f.Kind == e.kind {
				n++
			}
		}
		few(e.kind, n, 5*int(full))
	}
	return ps
}
