package main

import (
	"context"
	"fmt"
	"time"
)

// scenario is what happens to a sale.
type scenario struct {
	name    string
	length  time.Duration                  // unless -d is given
	work    time.Duration                  // unless -work is given
	coupons func(length time.Duration) int // unless -coupons is given
	fences  []fenceKind                    // unless -fence is given
	rate    int                            // requests that arrive each second; 0: a crowd of users who ask again and again

	// fault strikes now and again while a holder is inside its critical section.
	fault func(ctx context.Context, r *run, holder *instance) error
	// alone: the arms run one after the other, since they measure throughput.
	alone bool
}

// A rush leaves out the tokens that cost a trip of their own for each coupon:
// they cannot keep up with it.
var scenarios = []scenario{
	{name: "normal", length: usual, work: work, coupons: fourASecond, fences: fences},
	{name: "clock-step", length: usual, work: work, coupons: fourASecond, fences: fences, fault: stepClocks},
	{name: "pause", length: usual, work: work, coupons: fourASecond, fences: fences, fault: pauseHolder},
	{name: "load", length: usual, coupons: aMillion, fences: fences, alone: true},
	{name: "rush", length: 30 * time.Second, coupons: thousandASecond, fences: []fenceKind{fenceNone, fenceQuorum}, rate: 1000, alone: true},
}

const (
	usual = 25 * time.Second
	work  = 200 * time.Millisecond
)

// The story is what runs unless scenarios are named.
const story = "normal,clock-step,pause"

func fourASecond(length time.Duration) int     { return max(1, int(4*length.Seconds())) }
func aMillion(time.Duration) int               { return 1_000_000 }
func thousandASecond(length time.Duration) int { return max(1, int(1000*length.Seconds())) }

// stepClocks lets the clocks of two of the three nodes jump, so that the
// holder's keys die a tenth of the TTL after now instead of a whole one.
func stepClocks(ctx context.Context, r *run, _ *instance) error {
	return r.servers.step(ctx, r.sale.name, r.TTL*9/10)
}

// pauseHolder stops the holder's process for longer than its TTL, as a garbage
// collection, a full disk or a moving virtual machine would.
func pauseHolder(_ context.Context, r *run, holder *instance) error {
	return holder.pauseFor(r.TTL * 3 / 2)
}

func findScenario(name string) (scenario, error) {
	for _, s := range scenarios {
		if s.name == name {
			return s, nil
		}
	}
	return scenario{}, fmt.Errorf("there is no scenario %q", name)
}
