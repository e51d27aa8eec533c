package locktest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
)

// A19: a holder that dies is followed by the next, with a greater token, once
// its TTL is over.
func deadHolder(k *kit) {
	other, name := k.locker(), k.name()
	var token fencelock.Token
	var die func()
	if k.b.Worker != nil {
		w, n := k.start(order{Name: name, TTL: k.b.TTL})
		token, die = fencelock.Token(n), w.kill
	} else { // to the server a process that falls silent is one that has died
		l, link := k.via(k.short())
		token, die = k.acquire(l, name).Token(), link.BlackHole
	}
	k.taken(other, name)
	got := make(chan fencelock.Lock, 1)
	go func() {
		defer close(got)
		lock, err := k.get(other, name)
		if err != nil {
			k.Error(err)
			return
		}
		got <- lock
	}()
	<-time.After(k.b.TTL / 4) // the next one is waiting by now, most likely
	start := time.Now()
	die()
	lock := <-got
	if lock == nil {
		return
	}
	if d := time.Since(start); d > k.b.TTL+soon {
		k.Errorf("the next holder waited for %v, the TTL is %v", d, k.b.TTL)
	}
	if lock.Token() <= token {
		k.Errorf("token %d after %d", lock.Token(), token)
	}
	k.release(lock)
}

// A process that is stopped for longer than its TTL is told when it wakes.
func pausedHolder(k *kit) {
	other, name := k.locker(), k.name()
	w, token := k.start(order{Name: name, TTL: k.b.TTL})
	if err := pause(w.cmd.Process); err != nil {
		k.Fatal(err)
	}
	lock := k.acquire(other, name)
	if int64(lock.Token()) <= token {
		k.Errorf("token %d after %d", lock.Token(), token)
	}
	told := make(chan error, 1)
	go func() {
		_, err := w.read("lost")
		told <- err
	}()
	if err := wake(w.cmd.Process); err != nil {
		k.Fatal(err)
	}
	select {
	case err := <-told:
		if err != nil {
			k.Error(err)
		}
	case <-time.After(soon):
		k.Error("the holder has not been told")
		w.kill() // ends the reading
		<-told
	}
	k.held(lock, k.b.TTL)
	k.release(lock)
}

func fairWithPasses(k *kit)    { fair(k, 4095) }
func fairWithoutPasses(k *kit) { fair(k, 0) }

// A22: processes that fight for one name get it about equally often. A short
// contest has few turns, and chance a greater part: if one is not fair, the next
// is longer.
func fair(k *kit, passes int) {
	lasts := time.Second
	k.retry(func() error {
		lasts = min(2*lasts, 5*time.Second)
		counts := contest(k, 4, order{
			Name: k.name(), TTL: calm, Goroutines: 10, Passes: passes, For: lasts,
		})
		if least := slices.Min(counts); least == 0 || slices.Max(counts) > 2*least {
			return fmt.Errorf("locks per process: %v, the most should be at most twice the least", counts)
		}
		k.Logf("locks per process: %v", counts)
		return nil
	})
}

func contest(k *kit, processes int, o order) []int64 {
	counts, errs := make([]int64, processes), make([]error, processes)
	var all sync.WaitGroup
	if k.b.Worker == nil {
		var lockers []Locker
		for range processes {
			lockers = append(lockers, k.b.New(k, fencelock.TTL(o.TTL), fencelock.Passes(o.Passes)))
		}
		for i, l := range lockers {
			k.closing(l)
			all.Go(func() { counts[i], errs[i] = rush(l, o) })
		}
	} else {
		var workers []*worker
		for range processes {
			w, _ := k.start(o)
			workers = append(workers, w)
		}
		for i, w := range workers {
			all.Go(func() {
				if _, err := fmt.Fprintln(w.in, "go"); err != nil {
					errs[i] = err
					return
				}
				counts[i], errs[i] = w.read("done")
			})
		}
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			k.Fatal(err)
		}
	}
	return counts
}
