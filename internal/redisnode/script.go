package redisnode

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Lib is the functions that NewScript puts before a script's text.
//
//go:embed lib.lua
var Lib string

// Script is a Lua script. Its replies are arrays of strings, since integers of
// Lua lose digits above 2^53.
type Script struct {
	src, sha []byte
	once     bool
}

// Once marks a script that must not be sent again when its reply is late, and
// returns it. All others must be idempotent. (The client may still have retries.)
func (s *Script) Once() *Script {
	s.once = true
	return s
}

// NewScript returns a script of the source text, which may use the functions of
// lib.lua.
func NewScript(text string) *Script { return NewBareScript(Lib + text) }

// NewBareScript returns a script of exactly the source text.
func NewBareScript(text string) *Script {
	sum := sha1.Sum([]byte(text))
	return &Script{src: []byte(text), sha: []byte(hex.EncodeToString(sum[:]))}
}

// Call is one run of a script. All keys share a slot; there is at least one.
type Call struct {
	Script *Script
	Keys   []string
	Args   []string
}

// Result is how a Call ended.
type Result struct {
	Value any
	// Sent is the time just before the call was first written to a connection,
	// zero if it never was.
	Sent time.Time
	// Once says that it was written once: no retry of the client followed.
	Once bool
	// Err is the client's error or the ctx's.
	Err error
	// Pending is nil unless ctx ended before the reply had come and the call
	// may have been sent. It is closed when the client is done with it.
	Pending <-chan struct{}
}

// Unsent reports whether the call failed and cannot have reached the server: it
// was never written, by any of the client's retries.
func (r Result) Unsent() bool { return r.Err != nil && r.Sent.IsZero() && r.Pending == nil }

// Rejected reports whether the call's one error is the server's own answer, as
// NOPERM or WRONGTYPE, and no earlier try of the client can have fared better.
func (r Result) Rejected() bool {
	var answer redis.Error
	return r.Err != nil && r.Once && errors.As(r.Err, &answer)
}

// Strings returns the value as an array of strings.
func (r Result) Strings() ([]string, error) {
	vs, ok := r.Value.([]any)
	if !ok {
		return nil, fmt.Errorf("redis: unexpected reply %v", r.Value)
	}
	out := make([]string, len(vs))
	for i, v := range vs {
		if out[i], ok = v.(string); !ok {
			return nil, fmt.Errorf("redis: unexpected reply %v", r.Value)
		}
	}
	return out, nil
}

// Run runs one script: by its hash, and with its text if the server does not
// know it yet. The error is Result.Err.
func (n *Node) Run(ctx context.Context, s *Script, keys []string, args ...string) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{Err: err}, err
	}
	j := newJob(ctx, Call{s, keys, args})
	if n.direct(j) {
		return j.result, j.result.Err
	}
	j.group = &group{left: 1, done: make(chan struct{})}
	n.submit(j)
	select {
	case <-j.group.done:
	case <-ctx.Done():
	}
	r := j.outcome(ctx)
	return r, r.Err
}

// RunAll runs calls together and returns when all have ended, or ctx has: then
// those without a reply have its error.
func (n *Node) RunAll(ctx context.Context, calls []Call) []Result {
	out := make([]Result, len(calls))
	if len(calls) == 0 {
		return out
	}
	g := &group{left: int64(len(calls)), done: make(chan struct{})}
	jobs := make([]*job, len(calls))
	for i, c := range calls {
		jobs[i] = newJob(ctx, c)
		jobs[i].group = g
	}
	if ctx.Err() == nil {
		n.submit(jobs...)
		select {
		case <-g.done:
		case <-ctx.Done():
		}
	}
	for i, j := range jobs {
		out[i] = j.outcome(ctx)
	}
	return out
}

// The states of a job.
const (
	queued int32 = iota
	taken        // by a pipeline; it may have been sent
	dropped
	ended // result may be read
)

// job is a Call on its way.
type job struct {
	Call
	ctx    context.Context // for its values, which hooks of the client may read
	state  atomic.Int32
	result Result // guarded by state
	group  *group
	resent bool // it was given up once, and may have been run
	byText bool // the server does not know the script
}

type group struct {
	left int64
	done chan struct{} // closed when nothing is left
}

func newJob(ctx context.Context, c Call) *job { return &job{Call: c, ctx: ctx} }

// take claims a queued job for a pipeline, unless its caller has gone.
func (j *job) take() bool { return j.state.CompareAndSwap(queued, taken) }

// end publishes the result.
func (j *job) end() {
	j.state.Store(ended)
	if g := j.group; g != nil && atomic.AddInt64(&g.left, -1) == 0 {
		close(g.done)
	}
}

// outcome returns the result, or ctx's error if there is none yet.
func (j *job) outcome(ctx context.Context) Result {
	switch {
	case j.state.CompareAndSwap(queued, dropped):
		return Result{Err: ctx.Err()}
	case j.state.Load() == ended:
		return j.result
	}
	return Result{Err: ctx.Err(), Pending: j.group.done}
}

// cmd returns the command for one sending.
func (j *job) cmd() *redis.Cmd {
	name, text := "evalsha", j.Script.sha
	if j.byText {
		name, text = "eval", j.Script.src
	}
	args := make([]any, 0, 3+len(j.Keys)+len(j.Args))
	args = append(args, name, &marker{job: j, text: text, again: j.resent}, len(j.Keys))
	for _, k := range j.Keys {
		args = append(args, k)
	}
	for _, a := range j.Args {
		args = append(args, a)
	}
	return redis.NewCmd(j.ctx, args...)
}

// marker is an argument that notes when it is first written. This is how we
// know that nothing was sent: the error of a client that retries is only its
// last one.
type marker struct {
	job   *job
	text  []byte
	again bool // it has been written before
}

func (m *marker) MarshalBinary() ([]byte, error) {
	r := &m.job.result
	r.Once = !m.again
	m.again = true
	if r.Sent.IsZero() {
		r.Sent = time.Now()
	}
	return m.text, nil
}

func (m *marker) String() string { return string(m.text) }

// unknown reports whether err says that the server does not know the script, and
// sees to it that the next command brings it.
func (j *job) unknown(err error) bool {
	if err == nil || j.byText || !strings.HasPrefix(err.Error(), "NOSCRIPT") {
		return false
	}
	j.byText = true
	return true
}
