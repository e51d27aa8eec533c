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
	return open(c.String("on"), out, append(opts, fencelock.Prefix(c.String("prefix")), fencelock.TTL(c.Duration("ttl")))...)
}

// ask puts a question to the servers, for as long as they may take.
func ask(ctx context.Context, c *cli.Command, out *output, f func(ctx context.Context, b backend, name string) error) error {
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
	if err := f(ctx, b, c.String("name")); err != nil {
		return failure{exitUnreachable, err}
	}
	return nil
}

// showStatus says who holds a lock.
func showStatus(ctx context.Context, c *cli.Command, out *output) error {
	return ask(ctx, c, out, func(ctx context.Context, b backend, name string) error {
		s, err := b.Status(ctx, name)
		if err == nil {
			err = printStatus(out, name, s)
		}
		return err
	})
}

var errForeign = errors.New("its holder is a client without a token, not of fencelock's making: end that, or delete the lock by the server's own means")

// endHold ends the hold that there is, or the one with a given token, and shows
// what is left.
func endHold(ctx context.Context, c *cli.Command, out *output) error {
	if !c.Bool("force") {
		return errors.New("a lock is its holder's to release; to end it all the same, say --force, and see fencelock release --help for what that means")
	}
	return ask(ctx, c, out, func(ctx context.Context, b backend, name string) error {
		s, err := b.Status(ctx, name)
		if err != nil {
			return err
		}
		token := fencelock.Token(c.Int64("token"))
		switch {
		case token == 0 && !s.Held:
			return printStatus(out, name, s)
		case token == 0 && s.Token <= 0:
			return errForeign
		case token == 0:
			token = s.Token
		}
		if err := b.Break(ctx, name, token); err != nil {
			return err
		}
		if s, err = b.Status(ctx, name); err != nil {
			return err
		}
		return printStatus(out, name, s)
	})
}

func printStatus(out *output, name string, s fencelock.Status) error {
	if out.json {
		f := fields{"name": name, "held": s.Held}
		if s.Token > 0 {
			f["token"] = s.Token.String()
		}
		if !s.Since.IsZero() {
			f["since"] = s.Since.UTC().Format(time.RFC3339Nano)
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
	if !s.Since.IsZero() {
		row("since", s.Since.Format(time.RFC3339))
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
