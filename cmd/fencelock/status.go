//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/fencelock/fencelock"
)

// defTimeout is how long the servers may take to answer a question.
const defTimeout = 10 * time.Second

// openFor opens the backend that c names.
func openFor(c *cli.Command, out *output, opts ...fencelock.Option) (backend, error) {
	if c.String("name") == "" {
		return backend{}, errors.New("which lock? Give --name")
	}
	return open(c.String("on"), out, append(opts, fencelock.Prefix(c.String("prefix")))...)
}

// showStatus says who holds a lock.
func showStatus(ctx context.Context, c *cli.Command, out *output) error {
	if c.NArg() > 0 {
		return fmt.Errorf("what is %q for?", c.Args().First())
	}
	b, err := openFor(c, out)
	if err != nil {
		return err
	}
	defer b.close()
	ctx, cancel := context.WithTimeout(ctx, c.Duration("timeout"))
	defer cancel()
	name := c.String("name")
	s, err := b.Status(ctx, name)
	if err != nil {
		return failure{exitUnreachable, err}
	}
	return printStatus(out, name, s)
}

func printStatus(out *output, name string, s fencelock.Status) error {
	if out.json {
		f := fields{"name": name, "held": s.Held}
		if s.Token > 0 {
			f["token"] = s.Token.String()
		}
		if s.For > 0 {
			f["for_ms"] = s.For.Milliseconds()
		}
		if s.Waiters >= 0 {
			f["waiters"] = s.Waiters
		}
		return json.NewEncoder(os.Stdout).Encode(f)
	}
	row := func(what, text string) { fmt.Printf("%-9s %s\n", what, text) }
	row("name", name)
	switch {
	case s.Held && s.For > 0:
		row("held", fmt.Sprintf("yes, for %v unless renewed", s.For.Round(time.Millisecond)))
	case s.Held:
		row("held", "yes")
	default:
		row("held", "no")
	}
	switch {
	case s.Token > 0 && s.Held:
		row("token", s.Token.String())
	case s.Token > 0:
		row("token", s.Token.String()+", the last one")
	}
	if s.Waiters >= 0 {
		row("waiters", fmt.Sprint(s.Waiters))
	}
	return nil
}

// migrate creates the tables of a database.
func migrate(ctx context.Context, c *cli.Command, out *output) error {
	b, err := open(c.String("on"), out)
	if err != nil {
		return err
	}
	defer b.close()
	if b.migrate == nil {
		return errors.New("only postgres and mysql have tables")
	}
	ctx, cancel := context.WithTimeout(ctx, c.Duration("timeout"))
	defer cancel()
	if err := b.migrate(ctx); err != nil {
		return failure{exitUnreachable, err}
	}
	return nil
}
