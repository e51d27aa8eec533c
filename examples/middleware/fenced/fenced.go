// Package fenced carries a fencing token from the holder of a lock to the service
// that writes, in a header of the HTTP request. It is small, to be copied.
//
// The client puts the token of its hold into the ctx of its requests:
//
//	err := fencelock.WithLock(ctx, locker, "account/7", func(ctx context.Context, token fencelock.Token) error {
//		req, err := http.NewRequestWithContext(fenced.With(ctx, token), "PUT", url, body)
//		...
//		resp, err := client.Do(req) // whose Transport is a fenced.Transport
//
// The service requires one, and compares it where it writes:
//
//	mux.Handle("PUT /accounts/{id}", fenced.Require(put))
//	...
//	token, _ := fenced.From(r.Context())
//	UPDATE … SET …, fence_token = $token WHERE id = $id AND fence_token <= $token
//
// A service that only looked at the token in the middleware, before the handler
// writes, would leave the hole open that it is to close.
package fenced

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/fencelock/fencelock"
)

// Header is the header of a request that has a token.
const Header = "Fencing-Token"

type key struct{}

// With returns a ctx with the token.
func With(ctx context.Context, t fencelock.Token) context.Context {
	return context.WithValue(ctx, key{}, t)
}

// From returns the token in a ctx.
func From(ctx context.Context) (t fencelock.Token, ok bool) {
	t, ok = ctx.Value(key{}).(fencelock.Token)
	return t, ok
}

// Transport is an http.RoundTripper that sends the token in the ctx of a request, and
// turns the answer 412 to one with a token into an error that matches
// fencelock.ErrStale.
type Transport struct{ Base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	token, ok := From(r.Context())
	if !ok {
		return base.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	r.Header.Set(Header, token.String())
	resp, err := base.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusPreconditionFailed {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s %s: token %d: %w", r.Method, r.URL.Path, token, fencelock.ErrStale)
	}
	return resp, err
}

// Require passes requests on that have a token, with it in their ctx, and answers
// others with 428 (Precondition Required).
func Require(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.ParseInt(r.Header.Get(Header), 10, 64)
		if err != nil || n < 1 {
			http.Error(w, "this takes the "+Header+" of a lock", http.StatusPreconditionRequired)
			return
		}
		next.ServeHTTP(w, r.WithContext(With(r.Context(), fencelock.Token(n))))
	})
}

// Fail answers with what an error of the store means: 412 (Precondition Failed) for
// a stale token, else 500.
func Fail(w http.ResponseWriter, err error) {
	if errors.Is(err, fencelock.ErrStale) {
		http.Error(w, "a later holder has been here", http.StatusPreconditionFailed)
		return
	}
	http.Error(w, "it went wrong", http.StatusInternalServerError)
}
