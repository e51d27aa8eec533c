//go:build unix

// Command fencelock runs a program under a distributed lock, and shows and ends
// locks.
//
//	export FENCELOCK_ON=redis://localhost:6379
//	fencelock run --name nightly --try -- ./job.sh --all
//	fencelock status --name nightly
//	fencelock release --force --name nightly
//
// It takes every backend of the module, by URL. See fencelock help and
// fencelock help run.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
)

// The exit codes besides those of the job; see sysexits(3), timeout(1) and env(1).
const (
	exitUsage       = 64
	exitUnreachable = 69
	exitLost        = 70
	exitHeld        = 75
	exitMaxHold     = 124
	exitNotRunnable = 126
	exitNotFound    = 127
	exitSignal      = 128 // plus the number of the signal
)

// failure is an error with an exit code.
type failure struct {
	code int
	error
}

func (f failure) Unwrap() error { return f.error }

// exit is a code that needs no words.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// The kernel ends a job when the thread that started it has gone, see die: so
// that has to be the one that stays.
func init() { runtime.LockOSThread() }

func main() { os.Exit(run(os.Args)) }

// run returns the exit code.
func run(args []string) int {
	out := &output{}
	err := newApp(out, args).Run(context.Background(), args)
	var e exit
	var f failure
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return int(e)
	case errors.As(err, &f):
		out.fail(f.code, f.error)
		return f.code
	}
	out.fail(exitUsage, err)
	return exitUsage
}

func newApp(out *output, args []string) *cli.Command {
	flags := func(own ...cli.Flag) []cli.Flag { return slices.Concat(target(), own, common(out)) }
	return &cli.Command{
		Name:                  "fencelock",
		Usage:                 "run a program under a distributed lock",
		Version:               version(),
		Description:           overview,
		EnableShellCompletion: true,
		ConfigureShellCompletionCommand: func(c *cli.Command) {
			c.Hidden, c.Usage = false, "print the completion script for bash, zsh, fish or pwsh"
		},
		Suggest:        true,
		ExitErrHandler: func(context.Context, *cli.Command, error) {}, // main does it
		CommandNotFound: func(_ context.Context, _ *cli.Command, name string) {
			out.fail(exitUsage, fmt.Errorf("there is no command %q; see fencelock help", name))
			os.Exit(exitUsage)
		},
		OnUsageError: usageError,
		Commands: []*cli.Command{{
			Name:               "run",
			Usage:              "hold a lock while a program runs",
			UsageText:          "fencelock run [--on URL] --name NAME [options] -- PROGRAM [ARGUMENT...]",
			Description:        aboutRun,
			CustomHelpTemplate: cli.CommandHelpTemplate + afterRun,
			HideHelpCommand:    true,
			OnUsageError:       usageError,
			Flags:              flags(runFlags()...),
			Action: func(ctx context.Context, c *cli.Command) error {
				if !slices.Contains(args, "--") {
					return errors.New("put -- before the program, so that its options are not taken for ours")
				}
				return runJob(ctx, c, out)
			},
		}, {
			Name:               "status",
			Usage:              "say who holds a lock",
			UsageText:          "fencelock status [--on URL] --name NAME [--json]",
			Description:        aboutStatus,
			CustomHelpTemplate: cli.CommandHelpTemplate,
			HideHelpCommand:    true,
			OnUsageError:       usageError,
			Flags:              flags(timeoutFlag()),
			Action:             func(ctx context.Context, c *cli.Command) error { return showStatus(ctx, c, out) },
		}, {
			Name:               "release",
			Usage:              "end somebody's hold of a lock",
			UsageText:          "fencelock release --force [--on URL] --name NAME [--token TOKEN] [--json]",
			Description:        aboutRelease,
			CustomHelpTemplate: cli.CommandHelpTemplate,
			HideHelpCommand:    true,
			OnUsageError:       usageError,
			Flags: flags(timeoutFlag(),
				&cli.BoolFlag{Name: "force", Usage: "yes, I mean it", HideDefault: true},
				&cli.Int64Flag{Name: "token", Usage: "end the hold with this `TOKEN`, as status shows it, and no later one", HideDefault: true}),
			Action: func(ctx context.Context, c *cli.Command) error { return endHold(ctx, c, out) },
		}, {
			Name:               "migrate",
			Usage:              "create the tables of postgres and mysql",
			UsageText:          "fencelock migrate [--on URL]",
			Description:        aboutMigrate,
			CustomHelpTemplate: cli.CommandHelpTemplate,
			HideHelpCommand:    true,
			OnUsageError:       usageError,
			Flags:              slices.Concat([]cli.Flag{onFlag(), timeoutFlag()}, common(out)),
			Action:             func(ctx context.Context, c *cli.Command) error { return migrate(ctx, c, out) },
		}},
	}
}

func usageError(_ context.Context, c *cli.Command, err error, _ bool) error {
	return failure{exitUsage, fmt.Errorf("%w; see %s --help", err, c.FullName())}
}

// onFlag says where the locks are.
func onFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "on", Usage: "`URL` of the servers; better from the environment, since everybody can read a command line",
		Sources: cli.EnvVars("FENCELOCK_ON"), HideDefault: true,
	}
}

// target says which lock is meant.
func target() []cli.Flag {
	return []cli.Flag{
		onFlag(),
		&cli.StringFlag{Name: "name", Usage: "`NAME` of the lock", HideDefault: true},
		&cli.StringFlag{Name: "prefix", Usage: "what comes before every name at the server", Value: "fencelock/"},
		&cli.DurationFlag{Name: "ttl", Usage: "how long the servers keep a lock that they hear nothing of; renewed every third of it. In ZooKeeper, the time-out of a session", Value: 30 * time.Second},
	}
}

// common is what all commands take.
func common(out *output) []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "json", Usage: "speak JSON, one object a line", Destination: &out.json, HideDefault: true},
	}
}

func timeoutFlag() cli.Flag {
	return &cli.DurationFlag{Name: "timeout", Usage: "how long the servers may take to answer", Value: defTimeout}
}

// version is what go install has noted.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return strings.TrimSpace(info.Main.Version + " " + runtime.Version())
}
