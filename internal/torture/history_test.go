package torture

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencelock/fencelock"
)

// now is the host's monotonic clock, which all processes share and nobody steps.
func now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// event is a line of a log: the beginning of an operation, or its end.
type event struct {
	At     time.Duration   `json:"at"`
	Worker int             `json:"worker"`
	ID     int             `json:"id"` // of the operation, within the log
	Kind   kind            `json:"kind"`
	End    bool            `json:"end,omitempty"`
	Name   string          `json:"name,omitempty"`
	Token  fencelock.Token `json:"token,omitempty"`
	Value  string          `json:"value,omitempty"`
	Hold   int             `json:"hold,omitempty"` // the acquire that it belongs to
	Result result          `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
}

type kind string

const (
	acquire kind = "acquire"
	release kind = "release"
	lost    kind = "lost"  // the holder was told
	write   kind = "write" // to the register
	read    kind = "read"
	stall   kind = "stall" // the process did not run between beginning and end
)

type result string

const (
	ok      result = "ok"
	refused result = "refused" // held, or stale
	failed  result = "failed"
)

// journal is an append-only log of one worker. What was written before a kill
// stays.
type journal struct {
	mu     sync.Mutex
	worker int
	out    *os.File
	next   int
}

func openJournal(path string, worker int) (*journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &journal{worker: worker, out: f}, err
}

func (j *journal) log(e event) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !e.End && e.ID == 0 {
		j.next++
		e.ID = j.next
	}
	e.Worker = j.worker
	if e.At == 0 {
		e.At = now()
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.out.Write(append(line, '\n'))
	}
	if err != nil {
		panic(err)
	}
	return e.ID
}

// begin logs the call of an operation, end its return.
func (j *journal) begin(e event) event {
	e.ID = j.log(e)
	return e
}

func (j *journal) end(e event, r result, err error) {
	e.At, e.End, e.Result = 0, true, r
	if err != nil {
		e.Error = err.Error()
	}
	j.log(e)
}

// operation is a call and its return.
type operation struct {
	event               // as of the return, or of the call if there was none
	call  time.Duration // and event.At is the return
	open  bool          // it did not return: its process was killed
}

// operations reads the log of a worker. The last line may be cut off.
func operations(path string) (ops []*operation, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // killed before it began
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	open := make(map[int]*operation)
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return ops, nil
		}
		var e event
		if err == nil {
			err = json.Unmarshal(line, &e)
		}
		if err != nil {
			return nil, err
		}
		if o := open[e.ID]; e.End && o != nil {
			o.event, o.open = e, false
			delete(open, e.ID)
			continue
		}
		o := &operation{event: e, call: e.At, open: !e.End}
		ops = append(ops, o)
		if o.open {
			open[e.ID] = o
		}
	}
}
