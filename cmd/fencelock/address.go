//go:build unix

package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// address is a URL that may name several hosts, which net/url does not take.
type address struct {
	scheme string // before the first "+"
	style  string // after it
	user   *url.Userinfo
	hosts  []string
	path   string
	query  url.Values
	text   string
}

var errNoURL = errors.New("no servers are given: set FENCELOCK_ON, or give --on URL")

// parse reads a URL. Its errors quote nothing of it but the scheme, which is what is
// mostly wrong and holds no secret.
func parse(text string) (a address, err error) {
	if text == "" {
		return a, errNoURL
	}
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return a, errors.New("the servers' URL has no ://")
	}
	a.text = text
	a.scheme, a.style, _ = strings.Cut(scheme, "+")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	hosts := rest[:end]
	if at := strings.LastIndex(hosts, "@"); at >= 0 {
		u, err := url.Parse("x://" + hosts[:at] + "@x")
		if err != nil {
			return a, fmt.Errorf("the %s URL: what comes before the @ is malformed; write special characters as %%XX", scheme)
		}
		a.user, hosts = u.User, hosts[at+1:]
	}
	u, err := url.Parse("x://x" + rest[end:])
	if err == nil {
		a.query, err = url.ParseQuery(u.RawQuery)
	}
	if err != nil || u.Fragment != "" {
		return a, fmt.Errorf("the %s URL: what comes after the hosts is malformed", scheme)
	}
	a.path = u.Path
	a.hosts = strings.Split(hosts, ",")
	for _, h := range a.hosts {
		if h == "" {
			return a, fmt.Errorf("the %s URL has an empty host", scheme)
		}
	}
	return a, nil
}

// secrets are the parts of the URL that nobody should see, as they may be quoted.
func (a address) secrets() (all []string) {
	add := func(s string) {
		if s != "" {
			all = append(all, s, url.QueryEscape(s), url.PathEscape(s), url.UserPassword("", s).String()[1:])
		}
	}
	if a.user != nil {
		password, _ := a.user.Password()
		add(password)
	}
	for key, values := range a.query {
		if strings.Contains(strings.ToLower(key), "password") {
			for _, v := range values {
				add(v)
			}
		}
	}
	return all
}

// one returns the URL with one host only.
func (a address) one(scheme, host string) string {
	u := url.URL{Scheme: scheme, User: a.user, Host: host, Path: a.path, RawQuery: a.query.Encode()}
	return u.String()
}

// ports returns the hosts with a port each.
func (a address) ports(port string) []string {
	hosts := make([]string, len(a.hosts))
	for i, h := range a.hosts {
		if _, _, err := net.SplitHostPort(h); err != nil {
			h = net.JoinHostPort(strings.Trim(h, "[]"), port)
		}
		hosts[i] = h
	}
	return hosts
}

// take returns a value of the query, and takes it out.
func (a address) take(key string) string {
	v := a.query.Get(key)
	a.query.Del(key)
	return v
}
