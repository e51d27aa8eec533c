// Command leader runs a batch once though three processes want to, and then
// elects a leader among processes that die and stall: what is in charge is
// whoever holds a lock for as long as it lives, and each write carries the token.
//
// Start reading at candidate.go.
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
	"time"

	"github.com/fencelock/fencelock/examples/internal/child"
)

func main() {
	child.Main(candidateEnv, runCandidate)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, asJSON, err := parse(os.Args[1:], os.Stderr)
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
	if err := run(ctx, s, tell); err != nil {
		fmt.Fprintf(os.Stderr, "leader: this went wrong:\n%v\n", err)
		os.Exit(1)
	}
}

// parse reads the command line. It prints what is wrong with it.
func parse(args []string, output io.Writer) (s settings, asJSON bool, err error) {
	f := flag.NewFlagSet("leader", flag.ContinueOnError)
	f.SetOutput(output)
	f.StringVar(&s.On, "on", "", "`URL` of a running server, zk://host:port,host:port, etcd://host:port,host:port or redis://host:port, instead of one that is started "+
		"from this machine's programs: ZooKeeper or else Redis")
	f.DurationVar(&s.TTL, "ttl", 2*time.Second, "`time` after which a silent leader is replaced")
	f.BoolVar(&asJSON, "json", false, "print one JSON object an event instead of text")
	if err := f.Parse(args); err != nil {
		return s, asJSON, err
	}
	switch {
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	case s.TTL < 500*time.Millisecond:
		err = fmt.Errorf("-ttl %v is too short for ZooKeeper", s.TTL)
	}
	if err != nil {
		fmt.Fprintln(output, "leader:", err)
	}
	return s, asJSON, err
}
