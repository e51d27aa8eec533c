//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// output is how fencelock speaks: answers on its standard output, all else on its
// standard error, which it shares with the job.
type output struct {
	json    bool
	secrets []string // never printed
}

// fields are printed as one JSON object.
type fields map[string]any

// note reports something that has happened, with --json only: a job's own output
// should look as without us.
func (o *output) note(event string, f fields) {
	if !o.json {
		return
	}
	f["event"] = event
	o.line(f)
}

// warn reports what should be known, and does not change the exit code.
func (o *output) warn(err error) { o.error(fields{"event": "warning"}, err) }

// fail reports what the exit code means.
func (o *output) fail(code int, err error) { o.error(fields{"event": "error", "code": code}, err) }

func (o *output) error(f fields, err error) {
	text := o.hide(err.Error())
	if !o.json {
		fmt.Fprintln(os.Stderr, "fencelock:", strings.TrimPrefix(text, "fencelock: "))
		return
	}
	f["error"] = text
	o.line(f)
}

func (o *output) line(f fields) {
	text, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(os.Stderr, "%s\n", text)
}

// hide takes secrets out of what others say: some clients quote the URL.
func (o *output) hide(text string) string {
	for _, s := range o.secrets {
		text = strings.ReplaceAll(text, s, "xxxxx")
	}
	return text
}
