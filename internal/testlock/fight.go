package testlock

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/testserver"
)

// Fight has four worker processes of each kind, ours and peer, repeat the cycles
// that its worker "fight" gives to Rounds, by turns, and reports how many a second
// each kind makes, and their ratio. The worker gets the kind, addr, and how many
// goroutines it should have.
func Fight(b *testing.B, addr string, goroutines int) {
	workers := map[string][]*testserver.Worker{}
	for _, kind := range []string{"ours", "peer"} {
		for range 4 {
			workers[kind] = append(workers[kind], testserver.StartWorker(b, "fight", kind, addr, strconv.Itoa(goroutines)))
		}
	}
	locks := map[string]float64{}
	rounds := 0
	for b.Loop() {
		rounds++
		for kind, ws := range workers {
			for _, w := range ws {
				w.Send("1s")
			}
			for _, w := range ws {
				n, err := strconv.Atoi(w.Line())
				if err != nil {
					b.Fatal(err)
				}
				locks[kind] += float64(n)
			}
		}
	}
	b.ReportMetric(locks["ours"]/float64(rounds), "ours/s")
	b.ReportMetric(locks["peer"]/float64(rounds), "peer/s")
	b.ReportMetric(locks["ours"]/locks["peer"], "ratio")
}

// Rounds repeats all cycles at the same time for the times that in says, and says
// how often.
func Rounds(cycles []func() error, in io.Reader, out io.Writer) error {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		d, err := time.ParseDuration(lines.Text())
		if err != nil {
			return err
		}
		end, counts, errs := time.Now().Add(d), make([]int, len(cycles)), make([]error, len(cycles))
		var all sync.WaitGroup
		for i, cycle := range cycles {
			all.Go(func() {
				for errs[i] == nil && time.Now().Before(end) {
					errs[i] = cycle()
					counts[i]++
				}
			})
		}
		all.Wait()
		sum := 0
		for i, n := range counts {
			if errs[i] != nil {
				return errs[i]
			}
			sum += n
		}
		fmt.Fprintln(out, sum)
	}
	return nil
}
