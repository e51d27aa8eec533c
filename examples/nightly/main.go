// Command nightly lets three replicas of a service run a job every night, on one
// of them. In the first night the one that comes first fails, and another does
// it; in the second night one does it, and one comes when it has been done.
//
// Start reading at nightly.go.
//
//	go -C examples run ./nightly [-on redis://localhost:6379] [-json]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/redis"
)

// event is what a replica did in a night: it ran the job, failed, or skipped it.
type event struct {
	Night, Replica, What string
	Token                fencelock.Token // of who tried
}

func (e event) String() string {
	if e.Token == 0 {
		return fmt.Sprintf("%s  %s  %s", e.Night, e.Replica, e.What)
	}
	return fmt.Sprintf("%s  %s  %-7s  token %d", e.Night, e.Replica, e.What, e.Token)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	on, asJSON, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		os.Exit(2)
	}
	tell := func(e event) { fmt.Println(e) }
	if asJSON {
		out := json.NewEncoder(os.Stdout)
		tell = func(e event) { _ = out.Encode(e) }
	}
	if err := story(ctx, on, tell); err != nil {
		fmt.Fprintln(os.Stderr, "nightly:", err)
		os.Exit(1)
	}
}

func parse(args []string, output io.Writer) (on string, asJSON bool, err error) {
	f := flag.NewFlagSet("nightly", flag.ContinueOnError)
	f.SetOutput(output)
	f.StringVar(&on, "on", "", "`URL` of a running Redis, instead of one inside this program")
	f.BoolVar(&asJSON, "json", false, "print one JSON object an event instead of text")
	if err = f.Parse(args); err == nil && f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
		fmt.Fprintln(output, "nightly:", err)
	}
	return on, asJSON, err
}

// story tells two nights.
func story(ctx context.Context, on string, tell func(event)) (err error) {
	if on == "" {
		s, err := miniredis.Run()
		if err != nil {
			return err
		}
		defer s.Close()
		on = "redis://" + s.Addr()
	}
	var replicas []replica
	for _, name := range []string{"A", "B", "C"} {
		r, err := open(name, on)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.close()) }()
		replicas = append(replicas, r)
	}
	var mu sync.Mutex
	say := func(e event) {
		mu.Lock()
		defer mu.Unlock()
		tell(e)
	}
	a, b, c := replicas[0], replicas[1], replicas[2]

	// The first comes, and fails, while two wait.
	failed := errors.New("the disk is full")
	begun := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		a.night(ctx, "2026-12-01", say, func(context.Context) error { close(begun); return failed })
	})
	<-begun
	for _, r := range []replica{b, c} {
		all.Go(func() { r.night(ctx, "2026-12-01", say, work) })
	}
	all.Wait()

	// One is done before another comes.
	c.night(ctx, "2026-12-02", say, work)
	a.night(ctx, "2026-12-02", say, work)
	return ctx.Err()
}

// work is the job.
func work(ctx context.Context) error {
	select {
	case <-time.After(50 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// replica is one of the processes; here they share one.
type replica struct {
	name   string
	locker *redis.Locker
	nightly
}

func open(name, on string) (replica, error) {
	o, err := goredis.ParseURL(on)
	if err != nil {
		return replica{}, err
	}
	client := goredis.NewClient(o)
	locker, err := redis.New(client)
	if err != nil {
		return replica{}, err
	}
	fence, err := redis.NewFence(client)
	return replica{name, locker, nightly{locker, client, fence}}, err
}

func (r replica) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(r.locker.Close(ctx), r.client.Close())
}

// night runs the job if it is this replica's to run.
func (r replica) night(ctx context.Context, night string, say func(event), job func(context.Context) error) {
	e := event{Night: night, Replica: r.name, What: "skipped"}
	ran, err := r.run(ctx, night, func(ctx context.Context, token fencelock.Token) error {
		e.Token = token
		return job(ctx)
	})
	switch {
	case err != nil:
		e.What = "failed: " + err.Error()
	case ran:
		e.What = "ran"
	}
	say(e)
}
