// Command upload overwrites an object of an object store under a lock, by two
// processes: the first is paused in mid-upload for longer than its TTL, the second
// uploads, and the first wakes and goes on. Its late write is refused by the token
// in the object's metadata.
//
// Start reading at upload.go.
//
//	go -C examples run ./upload [-json]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/mem"
)

// event is something that a process has done.
type event struct {
	Process, What string // locked, paused, wrote, woke, refused
	Token         fencelock.Token
}

func (e event) String() string { return fmt.Sprintf("%s %-8s token %d", e.Process, e.What, e.Token) }

func main() {
	asJSON, err := parse(os.Args[1:], os.Stderr)
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
	if err := story(context.Background(), tell); err != nil {
		fmt.Fprintln(os.Stderr, "upload:", err)
		os.Exit(1)
	}
}

func parse(args []string, output io.Writer) (asJSON bool, err error) {
	f := flag.NewFlagSet("upload", flag.ContinueOnError)
	f.SetOutput(output)
	f.BoolVar(&asJSON, "json", false, "print one JSON object an event instead of text")
	if err = f.Parse(args); err == nil && f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
		fmt.Fprintln(output, "upload:", err)
	}
	return asJSON, err
}

const report = "reports/2026-11.csv"

func story(ctx context.Context, tell func(event)) error {
	b, stop, err := serve()
	if err != nil {
		return err
	}
	defer stop()
	server := mem.NewServer() // any backend would do; this one can pause a process
	first, err := mem.New(server, fencelock.TTL(200*time.Millisecond))
	if err != nil {
		return err
	}
	defer first.Close(ctx)
	second, err := mem.New(server)
	if err != nil {
		return err
	}
	defer second.Close(ctx)

	err = fencelock.WithLock(ctx, first, report, func(_ context.Context, token fencelock.Token) error {
		tell(event{"A", "locked", token})
		first.Link().Freeze() // it is paused, and its renewals with it
		tell(event{"A", "paused", token})
		err := fencelock.WithLock(ctx, second, report, func(ctx context.Context, token fencelock.Token) error {
			tell(event{"B", "locked", token})
			err := b.put(ctx, report, token, []byte("B's numbers"))
			if err == nil {
				tell(event{"B", "wrote", token})
			}
			return err
		})
		if err != nil {
			return err
		}
		first.Link().Heal()
		tell(event{"A", "woke", token})
		// It ignores its ctx, as a library or a running system call may.
		err = b.put(context.WithoutCancel(ctx), report, token, []byte("A's numbers, of before"))
		if errors.Is(err, fencelock.ErrStale) {
			tell(event{"A", "refused", token})
		}
		return err
	})
	switch {
	case !errors.Is(err, fencelock.ErrStale):
		return fmt.Errorf("the late write was not refused: %w", err)
	case !errors.Is(err, fencelock.ErrLost):
		return fmt.Errorf("the loss of the lock was not told: %w", err)
	}
	return nil
}

// serve starts an object store.
func serve() (b bucket, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return b, nil, err
	}
	server := &http.Server{Handler: &objects{all: make(map[string]object)}, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }()
	transport := &http.Transport{}
	return bucket{"http://" + l.Addr().String(), &http.Client{Transport: transport}}, func() {
		transport.CloseIdleConnections()
		_ = server.Close()
	}, nil
}
