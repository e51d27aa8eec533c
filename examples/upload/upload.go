package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/fencelock/fencelock"
)

// bucket overwrites objects of a store that has conditional writes, by tokens.
// Every object carries the token of its last writer in its metadata.
//
// It takes a store that tells each write from the one before, and a PUT that says
// which one it replaces: Azure's ETag and If-Match, Google's generation and
// x-goog-if-generation-match. So check and write are one step, though the check is
// made here. S3 has If-Match, too, but its ETag is a hash of the content: two writes
// of the same bytes look the same to it, so there the token must be part of the
// bytes.
type bucket struct {
	url    string
	client *http.Client
}

const (
	tokenHeader = "X-Meta-Fence-Token"
	tries       = 100 // who meets somebody else at every one of so many tries gives up
)

// put writes an object unless a later holder has: then the error matches
// fencelock.ErrStale. It reads nothing of what was there before; one who changes
// what he has read must claim the object before, with a put of what it is.
func (b bucket) put(ctx context.Context, name string, token fencelock.Token, body []byte) error {
	for range tries {
		tag, seen, err := b.look(ctx, name)
		if err != nil {
			return err
		}
		if seen > token {
			return &fencelock.StaleError{Name: name, Have: token, Want: seen}
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, b.url+"/"+name, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set(tokenHeader, token.String())
		if tag == "" {
			req.Header.Set("If-None-Match", "*")
		} else {
			req.Header.Set("If-Match", tag)
		}
		resp, err := b.do(req)
		switch {
		case err != nil:
			return err
		case resp.StatusCode == http.StatusPreconditionFailed:
			// Somebody has written meanwhile. Who is it?
		case resp.StatusCode/100 == 2:
			return nil
		default:
			return fmt.Errorf("PUT %s: %s", name, resp.Status)
		}
	}
	return fmt.Errorf("PUT %s: others write all the time", name)
}

// look returns the tag of what is there, "" if nothing is, and its writer's token.
func (b bucket) look(ctx context.Context, name string) (tag string, token fencelock.Token, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, b.url+"/"+name, nil)
	if err != nil {
		return "", 0, err
	}
	resp, err := b.do(req)
	switch {
	case err != nil:
		return "", 0, err
	case resp.StatusCode == http.StatusNotFound:
		return "", 0, nil
	case resp.StatusCode != http.StatusOK:
		return "", 0, fmt.Errorf("HEAD %s: %s", name, resp.Status)
	}
	n, err := strconv.ParseInt(resp.Header.Get(tokenHeader), 10, 64)
	if err != nil {
		return "", 0, fmt.Errorf("%s was written by somebody without a token", name)
	}
	return resp.Header.Get("ETag"), fencelock.Token(n), nil
}

func (b bucket) do(req *http.Request) (*http.Response, error) {
	resp, err := b.client.Do(req)
	if err != nil {
		return nil, err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp, resp.Body.Close()
}
