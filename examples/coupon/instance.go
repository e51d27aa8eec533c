package main

import (
	"encoding/json"
	"errors"
	"net/http"

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
		return nil, errors.Join(errors.New("an instance of the shop did not start"), p.Stop())
	}
	i := &instance{p, "http://" + address}
	go func() {
		for {
			line, ok := i.Line()
			if !ok {
				return
			}
			if line != working {
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
