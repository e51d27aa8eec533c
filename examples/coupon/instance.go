package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// instance is one process of the shop, seen from the parent.
type instance struct {
	url   string
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{} // closed when its output has ended
}

// stopWait bounds how long an instance may take to end by itself.
const stopWait = 5 * time.Second

// startInstance runs this program again as an instance of the shop, and waits
// until it serves. Whenever the instance is inside its critical section it is
// offered on inside, to whom is waiting there at that moment.
func startInstance(c shopConfig, inside chan<- *instance) (*instance, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	i := &instance{cmd: exec.Command(program), ended: make(chan struct{})}
	i.cmd.Env = append(os.Environ(), shopEnv+"="+string(config))
	i.cmd.Stderr = os.Stderr
	if i.stdin, err = i.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := i.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := i.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() {
		_ = i.cmd.Process.Kill()
		return nil, fmt.Errorf("an instance of the shop did not start: %w", errors.Join(lines.Err(), i.cmd.Wait()))
	}
	i.url = "http://" + lines.Text()
	go func() {
		defer close(i.ended)
		for lines.Scan() {
			if lines.Text() != working {
				continue
			}
			select {
			case inside <- i:
			default: // nobody is waiting, and old news are no news
			}
		}
	}()
	return i, nil
}

// pause stops the process, with its renewals and all, for d.
func (i *instance) pause(d time.Duration) error {
	if err := i.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	time.Sleep(d)
	return i.cmd.Process.Signal(syscall.SIGCONT)
}

// tokenTimes returns how many microseconds each token took that the instance
// has minted outside the lock.
func (i *instance) tokenTimes(client *http.Client) (micros []int64, err error) {
	r, err := client.Get(i.url + "/token-times")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	err = json.NewDecoder(r.Body).Decode(&micros)
	return micros, err
}

// stop ends the process.
func (i *instance) stop() error {
	_ = i.stdin.Close()
	kill := time.AfterFunc(stopWait, func() { _ = i.cmd.Process.Kill() })
	defer kill.Stop()
	<-i.ended
	return i.cmd.Wait()
}
