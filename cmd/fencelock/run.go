//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/fencelock/fencelock"
)

func runFlags() []cli.Flag {
	return []cli.Flag{
		&cli.DurationFlag{Name: "wait", Usage: "how long to wait for the lock (default: for ever)", HideDefault: true},
		&cli.BoolFlag{Name: "try", Usage: "do not wait for the lock", HideDefault: true},
		&cli.DurationFlag{Name: "max-hold", Usage: "how long the program may run (default: for ever)", HideDefault: true},
		&cli.DurationFlag{Name: "grace", Usage: "how long the program has between TERM and KILL", Value: 5 * time.Second},
	}
}

// runJob holds a lock while a program runs. Its error has the exit code.
func runJob(ctx context.Context, c *cli.Command, out *output) error {
	path, argv, err := program(c.Args().Slice())
	if err != nil {
		return err
	}
	for _, flag := range []string{"wait", "max-hold", "grace"} {
		if c.Duration(flag) < 0 {
			return fmt.Errorf("--%s %v is negative", flag, c.Duration(flag))
		}
	}
	b, err := openFor(c, out, fencelock.Observe(func(_ context.Context, e fencelock.Event) {
		if e.Kind == fencelock.EventWarn {
			out.warn(e.Err)
		}
	}))
	if err != nil {
		return err
	}
	defer b.close()

	signals := catch()
	start := time.Now()
	lock, err := acquire(ctx, b, c, signals)
	if err != nil {
		return err
	}
	out.note("acquired", fields{"name": lock.Name(), "token": lock.Token().String(), "waited_ms": time.Since(start).Milliseconds()})
	start = time.Now()
	code, err := hold(c, out, lock, path, argv, signals)
	release(out, lock, &code)
	out.note("released", fields{"name": lock.Name(), "token": lock.Token().String(), "held_ms": time.Since(start).Milliseconds(), "code": code})
	if err != nil {
		return err
	}
	return exit(code)
}

// program finds what is to be run before anybody waits for it.
func program(argv []string) (path string, _ []string, err error) {
	if len(argv) == 0 {
		return "", nil, errors.New("which program? Give it after --")
	}
	path, err = exec.LookPath(argv[0])
	switch {
	case err == nil || errors.Is(err, exec.ErrDot): // PATH has a ".", which is the user's own choice
		return path, argv, nil
	case errors.Is(err, fs.ErrPermission):
		return "", nil, failure{exitNotRunnable, err}
	}
	return "", nil, failure{exitNotFound, err}
}

// acquire waits for the lock. A signal that would end the job ends the wait.
func acquire(ctx context.Context, b backend, c *cli.Command, signals <-chan os.Signal) (fencelock.Lock, error) {
	var opts []fencelock.Option
	switch {
	case c.Bool("try"):
		opts = append(opts, fencelock.Wait(0))
	case c.IsSet("wait"):
		opts = append(opts, fencelock.Wait(c.Duration("wait")))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		for {
			select {
			case s := <-signals:
				switch s {
				case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM:
					cancel(exit(exitSignal + int(s.(syscall.Signal))))
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	lock, err := b.Acquire(ctx, c.String("name"), opts...)
	cancel(nil)
	<-listening
	var interrupted exit
	switch {
	case errors.As(context.Cause(ctx), &interrupted):
		if err == nil { // it came too late
			_ = lock.Release(context.Background())
		}
		return nil, interrupted
	case errors.Is(err, fencelock.ErrHeld):
		return nil, failure{exitHeld, err}
	case err != nil:
		return nil, failure{exitUnreachable, err}
	}
	return lock, nil
}

// hold runs the program and sees it to its end.
func hold(c *cli.Command, out *output, lock fencelock.Lock, path string, argv []string, signals <-chan os.Signal) (code int, _ error) {
	j, err := startJob(path, argv, environment(lock))
	if err != nil {
		return exitNotRunnable, failure{exitNotRunnable, fmt.Errorf("%s: %w", path, err)}
	}
	var over <-chan time.Time
	if most := c.Duration("max-hold"); most > 0 {
		over = time.After(most)
	}
	lost := lock.Lost()
	late := make(chan struct{}) // closed when the grace is over
	var killing <-chan struct{}
	end := func(because int, err error) {
		out.fail(because, err)
		if code == 0 {
			j.end()
			time.AfterFunc(c.Duration("grace"), func() { close(late) })
			killing = late
		}
		code = because
	}
	for {
		select {
		case s := <-signals:
			j.signal(s.(syscall.Signal))
		case <-lost:
			lost, over = nil, nil
			end(exitLost, lock.Err())
		case <-over:
			over = nil
			end(exitMaxHold, fmt.Errorf("the program has run for %v: --max-hold", c.Duration("max-hold")))
		case <-killing:
			killing = nil
			j.signal(syscall.SIGKILL)
		case status := <-j.ended:
			if code == 0 {
				return exitCode(status), nil
			}
			j.clear(late)
			return code, nil
		}
	}
}

// environment is ours, with the lock in it.
func environment(lock fencelock.Lock) []string {
	ours := map[string]string{"FENCELOCK_NAME": lock.Name(), "FENCELOCK_TOKEN": lock.Token().String()}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		key, _, _ := strings.Cut(v, "=")
		return ours[key] != ""
	})
	for key, value := range ours {
		env = append(env, key+"="+value)
	}
	return env
}

// release gives the lock up. A loss that only shows now is a loss; a server that
// does not answer will forget the lock by itself.
func release(out *output, lock fencelock.Lock, code *int) {
	ctx, cancel := context.WithTimeout(context.Background(), defTimeout)
	defer cancel()
	err := lock.Release(ctx)
	switch {
	case err == nil || *code == exitLost:
	case errors.Is(err, fencelock.ErrLost):
		*code = exitLost
		out.fail(exitLost, err)
	default:
		out.warn(err)
	}
}
