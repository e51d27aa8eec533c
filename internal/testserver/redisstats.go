package testserver

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

// Calls returns how often the server has run these commands, in any letters, or all of them without names. Commands
// that scripts run count, too, and those that failed. See Monitor for what one client sent.
func (r *Redis) Calls(names ...string) int {
	r.tb.Helper()
	wanted, total := Named(names...), 0
	for field, stats := range r.Info("commandstats") {
		name := strings.TrimPrefix(field, "cmdstat_")
		var calls int
		if _, err := fmt.Sscanf(stats, "calls=%d,", &calls); err == nil && wanted([]string{name}) {
			total += calls
		}
	}
	return total
}

// Clients returns one line of CLIENT LIST for each connected client but the asking one.
func (r *Redis) Clients() []string {
	r.tb.Helper()
	var lines []string
	for line := range strings.Lines(r.Do("CLIENT", "LIST").(string)) {
		if line = strings.TrimSpace(line); line != "" && !strings.Contains(line, " cmd=client|list ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// Monitor sees all commands that the server runs.
type Monitor struct {
	r *Redis
	c *respConn
}

// Call is one command that a server has run.
type Call struct {
	From string   // host:port of the client, or "lua" inside a script
	Args []string // the command's name first
}

// Monitor starts to collect the commands that the server runs from now on, until the test ends.
func (r *Redis) Monitor() *Monitor {
	r.tb.Helper()
	c, err := dialRESP(r.addr)
	if err == nil {
		r.tb.Cleanup(func() { c.Close() })
		_, err = c.do("MONITOR")
	}
	if err != nil {
		r.tb.Fatalf("testserver: MONITOR: %v", err)
	}
	return &Monitor{r, c}
}

// Calls returns the commands since Monitor or the last Calls.
func (m *Monitor) Calls() []Call {
	m.r.tb.Helper()
	marker := "end-" + strconv.FormatUint(rand.Uint64(), 36)
	m.r.Do("ECHO", marker)
	var calls []Call
	for {
		v, err := m.c.reply()
		line, _ := v.(string)
		call, ok := parseCall(line)
		switch {
		case err != nil || !ok:
			m.r.tb.Fatalf("testserver: MONITOR: %q, %v", line, err)
		case len(call.Args) == 2 && call.Args[1] == marker:
			return calls
		}
		calls = append(calls, call)
	}
}

var (
	callLine = regexp.MustCompile(`^[0-9.]+ \[\d+ (\S+)\] (.*)$`)
	callWord = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
)

func parseCall(line string) (Call, bool) {
	m := callLine.FindStringSubmatch(line)
	if m == nil {
		return Call{}, false
	}
	call := Call{From: m[1]}
	for _, quoted := range callWord.FindAllString(m[2], -1) {
		word, err := strconv.Unquote(quoted)
		if err != nil {
			return Call{}, false
		}
		call.Args = append(call.Args, word)
	}
	return call, len(call.Args) > 0
}
