package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/fencelock/fencelock/examples/internal/child"
)

// instance is one process of the shop, seen from the parent.
type instance struct {
	*child.Process
	url string
}

// startInstance runs this program again as an instance of the shop, and waits
// until it serves. Whenever the instance is inside its critical section it is
// offered on inside, to whom is waiting there at that moment.
func startInstance(c shopConfig, inside chan<- *instance) (*instance, error) {
	p, err := child.Start(shopEnv, c)
	if err != nil {
		return nil, err
	}
	address, ok := p.Line()
	if !ok {
		p.Follow(func(string) {})
		return nil, errors.Join(errors.New("an instance of the shop did not start"), p.Wait())
	}
	i := &instance{p, "http://" + address}
	go i.Follow(func(line string) {
		if line != working {
			return
		}
		select {
		case inside <- i:
		default: // nobody is waiting, and old news are no news
		}
	})
	return i, nil
}

// pauseFor stops the process for d.
func (i *instance) pauseFor(d time.Duration) error {
	if err := i.Pause(); err != nil {
		return err
	}
	time.Sleep(d)
	return i.Resume()
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
