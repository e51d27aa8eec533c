package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// secondLook is how long a user who was told "sold out" waits before asking
	// again.
	secondLook = time.Second
	// answerWait is longer than any shop should take to answer.
	answerWait = time.Minute
	// rushConnections is how many requests of a rush are under way at once.
	rushConnections = 200
	// rushPatience bounds how long after the last arrival of a rush its buyers
	// who were told "busy" may still ask again.
	rushPatience = 2 * time.Minute
)

// buyers send requests to the instances of the shop and count the answers.
type buyers struct {
	shops  []*instance
	client *http.Client

	mu       sync.Mutex
	requests int
	answers  map[int]int         // by HTTP status
	sold     map[string]struct{} // the requests that were answered 200
	failure  error               // the first answer that no shop should give
}

func newBuyers(shops []*instance) *buyers {
	return &buyers{
		shops:   shops,
		client:  &http.Client{Timeout: answerWait, Transport: &http.Transport{MaxIdleConnsPerHost: rushConnections}},
		answers: map[int]int{},
		sold:    map[string]struct{}{},
	}
}

// crowd is a number of users who stay with one instance each and ask it again
// and again until ctx ends. Each gets the answer to its last request.
func (b *buyers) crowd(ctx context.Context, users int) {
	var all sync.WaitGroup
	for u := range users {
		all.Go(func() {
			for ctx.Err() == nil {
				if b.buy(b.shops[u%len(b.shops)]) == http.StatusGone {
					select {
					case <-ctx.Done():
					case <-time.After(secondLook):
					}
				}
			}
		})
	}
	all.Wait()
}

// rush is n users who arrive evenly over length, whatever the answers to those
// before them. Those who are told "busy" ask again.
func (b *buyers) rush(ctx context.Context, n int, length time.Duration) {
	patient, cancel := context.WithTimeout(ctx, length+rushPatience)
	defer cancel()
	arrivals := make(chan int, n)
	go func() {
		defer close(arrivals)
		start := time.Now()
		for i := range n {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(start.Add(length * time.Duration(i) / time.Duration(n)))):
				arrivals <- i
			}
		}
	}()
	var all sync.WaitGroup
	for range rushConnections {
		all.Go(func() {
			for i := range arrivals {
				for b.buy(b.shops[i%len(b.shops)]) == http.StatusServiceUnavailable && patient.Err() == nil {
				}
			}
		})
	}
	all.Wait()
}

// buy asks a shop for a coupon and returns the status of its answer, 0 if it
// failed.
func (b *buyers) buy(shop *instance) int {
	request := b.nextRequest()
	status, body, err := post(b.client, shop.url+"/coupons/"+request)

	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers[status]++
	switch status {
	case http.StatusOK:
		b.sold[request] = struct{}{}
	case http.StatusGone, http.StatusConflict, http.StatusServiceUnavailable:
	default:
		if err == nil {
			err = errors.New(strings.TrimSpace(body))
		}
		if b.failure == nil {
			b.failure = fmt.Errorf("status %d: %w", status, err)
		}
	}
	return status
}

func (b *buyers) nextRequest() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests++
	return fmt.Sprintf("request-%d", b.requests)
}

func (b *buyers) count(status int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.answers[status]
}

func post(client *http.Client, url string) (status int, body string, err error) {
	r, err := client.Post(url, "", nil)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, "", err
	}
	return r.StatusCode, string(text), nil
}
