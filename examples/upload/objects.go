package main

import (
	"io"
	"net/http"
	"strconv"
	"sync"
)

// objects stands for an object store: PUT, GET and HEAD with ETags and conditions.
type objects struct {
	mu      sync.Mutex
	written int
	all     map[string]object
}

type object struct {
	tag, token string
	body       []byte
}

func (o *objects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now, there := o.all[r.URL.Path]
	switch r.Method {
	case http.MethodPut:
		match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
		if match != "" && match != now.tag || none == "*" && there {
			http.Error(w, "it is another one by now", http.StatusPreconditionFailed)
			return
		}
		o.written++
		now = object{strconv.Quote(strconv.Itoa(o.written)), r.Header.Get(tokenHeader), body}
		o.all[r.URL.Path] = now
		w.Header().Set("ETag", now.tag)
	case http.MethodGet, http.MethodHead:
		if !there {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("ETag", now.tag)
		w.Header().Set(tokenHeader, now.token)
		_, _ = w.Write(now.body)
	default:
		http.Error(w, "PUT, GET or HEAD", http.StatusMethodNotAllowed)
	}
}
