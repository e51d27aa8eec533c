// Command middleware has two workers change a document at a service, over HTTP,
// under a lock. The first is paused for longer than its TTL before it sends its
// request; the second changes the document; the first wakes and sends. The service
// knows nothing of locks: it refuses the late request by the token in its header.
//
// Start reading at fenced/fenced.go, then service.go.
//
//	go -C examples run ./middleware [-json]
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
	"path/filepath"
	"strings"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/examples/middleware/fenced"
	"github.com/fencelock/fencelock/mem"
)

// event is something that a worker has done.
type event struct {
	Worker, What string // locked, paused, wrote, woke, refused
	Token        fencelock.Token
}

func (e event) String() string { return fmt.Sprintf("%s %-8s token %d", e.Worker, e.What, e.Token) }

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
		fmt.Fprintln(os.Stderr, "middleware:", err)
		os.Exit(1)
	}
}

func parse(args []string, output io.Writer) (asJSON bool, err error) {
	f := flag.NewFlagSet("middleware", flag.ContinueOnError)
	f.SetOutput(output)
	f.BoolVar(&asJSON, "json", false, "print one JSON object an event instead of text")
	if err = f.Parse(args); err == nil && f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
		fmt.Fprintln(output, "middleware:", err)
	}
	return asJSON, err
}

const name = "documents/7"

func story(ctx context.Context, tell func(event)) (err error) {
	at, stop, err := serve()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: fenced.Transport{Base: transport}}
	put := func(ctx context.Context, token fencelock.Token, body string) error {
		req, err := http.NewRequestWithContext(fenced.With(ctx, token), http.MethodPut, at+"/"+name, strings.NewReader(body))
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusNoContent {
			return errors.New(resp.Status)
		}
		return nil
	}

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

	err = fencelock.WithLock(ctx, first, name, func(_ context.Context, token fencelock.Token) error {
		tell(event{"A", "locked", token})
		first.Link().Freeze() // it is paused, and its renewals with it
		tell(event{"A", "paused", token})
		err := fencelock.WithLock(ctx, second, name, func(ctx context.Context, token fencelock.Token) error {
			tell(event{"B", "locked", token})
			err := put(ctx, token, "B's text")
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
		err = put(context.WithoutCancel(ctx), token, "A's text, of before")
		if errors.Is(err, fencelock.ErrStale) {
			tell(event{"A", "refused", token})
		}
		return err
	})
	if !errors.Is(err, fencelock.ErrStale) {
		return fmt.Errorf("the late request was not refused: %w", err)
	}
	return nil
}

// serve starts the service with a database of its own.
func serve() (url string, stop func() error, err error) {
	dir, err := os.MkdirTemp("", "middleware-")
	if err != nil {
		return "", nil, err
	}
	s, err := openService(filepath.Join(dir, "documents.db"))
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, errors.Join(err, s.db.Close(), os.RemoveAll(dir))
	}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }()
	return "http://" + l.Addr().String(), func() error {
		return errors.Join(server.Close(), s.db.Close(), os.RemoveAll(dir))
	}, nil
}
