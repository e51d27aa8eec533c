package main

import (
	"fmt"
	"net/http"
)

// row is what came of one run.
type row struct {
	Scenario   string    `json:"scenario"`
	Fence      fenceKind `json:"fence"`
	OK         int       `json:"ok"`        // answers 200
	Rows       int       `json:"rows"`      // coupons in the database
	Remaining  int       `json:"remaining"` // coupons that the shop believes it still has
	Phantom    int       `json:"phantom"`   // answers 200 whose request owns no coupon
	SoldOut    int       `json:"sold_out"`  // answers "sold out"
	Timeouts   int       `json:"timeouts"`  // answers "busy": no lock in time
	Refused    int       `json:"refused"`   // writes that the fence refused
	Total      int       `json:"total"`     // answers
	LocksPerS  float64   `json:"locks_per_s"`
	P95TokenUS int64     `json:"p95_token_us"` // of the time it took to mint a token; 0 if it came with the lock

	failed  int   // answers that no shop should give
	failure error // the first of them
}

func (b *buyers) counts() row {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := row{
		OK:       b.answers[http.StatusOK],
		SoldOut:  b.answers[http.StatusGone],
		Timeouts: b.answers[http.StatusServiceUnavailable],
		Refused:  b.answers[http.StatusConflict],
		failure:  b.failure,
	}
	for _, n := range b.answers {
		r.Total += n
	}
	r.failed = r.Total - r.OK - r.SoldOut - r.Timeouts - r.Refused
	return r
}

// note returns what a reader of the row should know beside its figures, if
// anything: on an overloaded machine a node may be too slow for a lock with a
// TTL of a second.
func (r row) note() string {
	if r.failed == 0 {
		return ""
	}
	return fmt.Sprintf("%s, fence %s: %d requests failed, the first with: %v", r.Scenario, r.Fence, r.failed, r.failure)
}

// check returns what is wrong with a row: a sale that the fence did not save, or
// an experiment that showed nothing.
func (r row) check() (wrong []string) {
	say := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("%s, fence %s: ", r.Scenario, r.Fence)+fmt.Sprintf(format, args...))
	}
	s, err := findScenario(r.Scenario)
	if err != nil {
		say("%v", err)
	}
	faulty, fenced := s.fault != nil, r.Fence != fenceNone
	if r.failed*2 > r.Total {
		say("%d of %d requests failed", r.failed, r.Total)
	}
	if r.OK == 0 {
		say("nothing was sold")
	}
	if faulty && !fenced && r.Phantom == 0 {
		say("no phantom coupons: the fault had no effect, so this shows nothing")
	}
	if faulty && fenced && r.Refused == 0 {
		say("the fence refused nothing: the fault had no effect, so this shows nothing")
	}
	if (fenced || !faulty) && r.Phantom > 0 {
		say("%d phantom coupons", r.Phantom)
	}
	if s.rate > 0 && (r.Remaining != 0 || r.OK != r.Rows) {
		say("%d sold, %d coupons in the database, %d remaining", r.OK, r.Rows, r.Remaining)
	}
	return wrong
}
