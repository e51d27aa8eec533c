package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/examples/internal/child"
)

type settings struct {
	On  string
	TTL time.Duration
}

// event is something that a process has done, or that was done to it.
type event struct {
	Process string
	What    string // started, killed, stopped, woken; ran, skipped; leads, wrote, refused, lost
	Token   fencelock.Token
}

func (e event) String() string {
	if e.Token == 0 {
		return fmt.Sprintf("%-4s %s", e.Process, e.What)
	}
	return fmt.Sprintf("%-4s %-8s token %d", e.Process, e.What, e.Token)
}

// patience is how long something may take that should come at once, or after the
// TTL.
const patience = 60 * time.Second

// stage is where the processes play.
type stage struct {
	settings
	tell   func(event)
	events chan event
	ends   sync.WaitGroup
	cast   []*child.Process
	last   fencelock.Token // of the latest leader
}

// run tells the two stories.
func run(ctx context.Context, s settings, tell func(event)) (err error) {
	on, stop, err := server(s.On)
	if err != nil {
		return err
	}
	s.On = on
	st := &stage{settings: s, tell: tell, events: make(chan event, 1024)}
	defer func() { err = errors.Join(err, st.end(), stop()) }()
	if err := st.runOnce(ctx); err != nil {
		return fmt.Errorf("the batch: %w", err)
	}
	if err := st.elect(ctx); err != nil {
		return fmt.Errorf("the election: %w", err)
	}
	return nil
}

// runOnce has three processes want to run the same batch.
func (s *stage) runOnce(ctx context.Context) error {
	for i := range 3 {
		if _, err := s.start(fmt.Sprint("b", i+1), "batch"); err != nil {
			return err
		}
	}
	ran := 0
	for range 3 {
		e, err := s.await(ctx, func(e event) bool { return e.What == "ran" || e.What == "skipped" })
		if err != nil {
			return err
		}
		if e.What == "ran" {
			ran++
		}
	}
	if ran != 1 {
		return fmt.Errorf("it ran %d times", ran)
	}
	return nil
}

// elect has leaders die and stall.
func (s *stage) elect(ctx context.Context) error {
	people := map[string]*child.Process{}
	enter := func(name string) (err error) {
		people[name], err = s.start(name, "leader")
		return err
	}
	do := func(name, what string, f func() error) error {
		s.tell(event{Process: name, What: what})
		return f()
	}
	if err := errors.Join(enter("A"), enter("B")); err != nil {
		return err
	}
	first, err := s.leader(ctx)
	if err != nil {
		return err
	}
	if err := do(first, "killed", people[first].Kill); err != nil {
		return err
	}
	second, err := s.leader(ctx)
	if err != nil {
		return err
	}
	if second == first {
		return errors.New("a dead process leads")
	}
	if err := enter("C"); err != nil {
		return err
	}
	if err := do(second, "stopped", people[second].Pause); err != nil {
		return err
	}
	third, err := s.leader(ctx)
	if err != nil {
		return err
	}
	if err := do(second, "woken", people[second].Resume); err != nil {
		return err
	}
	// It goes on where it was stopped, and its next write comes too late.
	_, err = s.await(ctx, func(e event) bool { return e.Process == second && e.What == "refused" })
	if err != nil {
		return err
	}
	_, err = s.await(ctx, func(e event) bool { return e.Process == third && e.What == "wrote" })
	return err
}

// leader waits for a new leader with a greater token and three writes of it.
func (s *stage) leader(ctx context.Context) (name string, err error) {
	before := s.last
	e, err := s.await(ctx, func(e event) bool { return e.What == "leads" })
	if err != nil {
		return "", err
	}
	if e.Token <= before {
		return "", fmt.Errorf("the token of %s is %d after %d", e.Process, e.Token, before)
	}
	s.last = e.Token
	for range 3 {
		w, err := s.await(ctx, func(e event) bool { return e.What == "wrote" })
		if err != nil {
			return "", err
		}
		if w.Process != e.Process || w.Token != e.Token {
			return "", fmt.Errorf("%s wrote with token %d while %s leads with %d", w.Process, w.Token, e.Process, e.Token)
		}
	}
	return e.Process, nil
}

func (s *stage) start(name, role string) (*child.Process, error) {
	p, err := child.Start(candidateEnv, candidate{settings: s.settings, Name: name, Role: role})
	if err != nil {
		return nil, err
	}
	s.tell(event{Process: name, What: "started"})
	s.cast = append(s.cast, p)
	s.ends.Go(func() {
		p.Follow(func(line string) {
			var e event
			if json.Unmarshal([]byte(line), &e) == nil {
				s.events <- e
			}
		})
	})
	return p, nil
}

// await tells what happens until it is what is waited for.
func (s *stage) await(ctx context.Context, is func(event) bool) (event, error) {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case e := <-s.events:
			s.tell(e)
			if is(e) {
				return e, nil
			}
		case <-timeout.C:
			return event{}, fmt.Errorf("nothing happens for %v", patience)
		case <-ctx.Done():
			return event{}, ctx.Err()
		}
	}
}

// end ends all processes. One that was killed says so, which is no fault.
func (s *stage) end() error {
	drained := make(chan struct{})
	go func() { // so that nobody waits to be heard
		defer close(drained)
		for range s.events {
		}
	}()
	for _, p := range s.cast {
		_ = p.Resume() // else it would not hear that it is to stop
	}
	for _, p := range s.cast {
		_ = p.Stop()
	}
	s.ends.Wait()
	close(s.events)
	<-drained
	return nil
}
