package testserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Etcd is one member of an etcd cluster; most often its only one.
type Etcd struct {
	*Process
	name, addr, peer string
}

// StartEtcd starts an etcd of one member for this test. args are given to it and win over ours.
func StartEtcd(tb testing.TB, args ...string) *Etcd {
	tb.Helper()
	return EtcdCluster(tb, 1, args...)[0]
}

// EtcdCluster starts an etcd cluster of so many members, ready when they have a leader.
func EtcdCluster(tb testing.TB, size int, args ...string) []*Etcd {
	tb.Helper()
	path := etcdBinary(tb)
	for attempt := 0; ; attempt++ {
		members, err := startEtcds(tb, path, size, args)
		if err == nil {
			return members
		}
		if attempt == 10 || !strings.Contains(strings.ToLower(err.Error()), "address already in use") {
			tb.Fatalf("testserver: %v", err)
		}
	}
}

// Leader returns the index of the member that leads, according to the others, or -1 if there is none now.
func Leader(members []*Etcd) int {
	for _, m := range members {
		var status struct {
			Header struct {
				MemberID string `json:"member_id"`
			} `json:"header"`
			Leader string `json:"leader"`
		}
		if m.ask("maintenance/status", &status) != nil || status.Leader == "" || status.Leader == "0" {
			continue
		}
		id, _ := strconv.ParseUint(status.Leader, 10, 64)
		return slices.IndexFunc(members, func(m *Etcd) bool { return m.Alive() && m.id() == id })
	}
	return -1
}

// Addr returns host:port for clients.
func (e *Etcd) Addr() string { return e.addr }

// Metric returns the sum of a metric's samples whose labels contain one of these texts, or of all without them.
func (e *Etcd) Metric(name string, labels ...string) int {
	e.tb.Helper()
	text, err := e.metrics()
	if err != nil {
		e.tb.Fatalf("testserver: metrics of etcd: %v", err)
	}
	sum := 0.0
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		if len(labels) > 0 && !slices.ContainsFunc(labels, func(l string) bool { return strings.Contains(rest, l) }) {
			continue
		}
		if f := strings.Fields(rest); len(f) > 0 {
			value, _ := strconv.ParseFloat(f[len(f)-1], 64)
			sum += value
		}
	}
	return int(sum)
}

func (e *Etcd) metrics() (string, error) {
	resp, err := etcdHTTP.Get("http://" + e.addr + "/metrics")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// etcdHTTP keeps no connections, whose goroutines would be taken for leaks.
var etcdHTTP = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// ask calls one method of the JSON gateway.
func (e *Etcd) ask(method string, answer any) error {
	resp, err := etcdHTTP.Post("http://"+e.addr+"/v3/"+method, "application/json", bytes.NewReader([]byte("{}")))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd: %s: %s", method, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}

// id returns the member's id, 0 if it does not answer.
func (e *Etcd) id() uint64 {
	var list struct {
		Members []struct{ ID, Name string } `json:"members"`
	}
	if e.ask("cluster/member/list", &list) != nil {
		return 0
	}
	for _, m := range list.Members {
		if m.Name == e.name {
			id, _ := strconv.ParseUint(m.ID, 10, 64)
			return id
		}
	}
	return 0
}

// ready knows its own member by the random name: a server that took the port before ours would answer, too.
func (e *Etcd) ready(int) error {
	var health struct{ Health string }
	resp, err := etcdHTTP.Get("http://" + e.addr + "/health")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&health); err != nil {
		return err
	}
	if health.Health != "true" {
		return errors.New("not healthy yet")
	}
	if e.id() == 0 {
		return fmt.Errorf("no member %s", e.name)
	}
	return nil
}

func startEtcds(tb testing.TB, path string, size int, args []string) ([]*Etcd, error) {
	tb.Helper()
	token := fmt.Sprintf("fencelock-%x", rand.Uint64())
	var members []*Etcd
	var cluster []string
	for i := range size {
		client, err := nextPort()
		if err != nil {
			return nil, err
		}
		peer, err := nextPort()
		if err != nil {
			return nil, err
		}
		e := &Etcd{name: fmt.Sprintf("%s-%d", token, i), addr: loopback(client), peer: "http://" + loopback(peer)}
		members, cluster = append(members, e), append(cluster, e.name+"="+e.peer)
	}
	for _, e := range members {
		dir := tempDir(tb)
		own := []string{
			"--name", e.name, "--data-dir", dir + "/data", "--log-level", "warn",
			"--listen-client-urls", "http://" + e.addr, "--advertise-client-urls", "http://" + e.addr,
			"--listen-peer-urls", e.peer, "--initial-advertise-peer-urls", e.peer,
			"--initial-cluster", strings.Join(cluster, ","), "--initial-cluster-token", token,
			"--unsafe-no-fsync", // tests kill processes, not machines
		}
		p, err := start(Command{Path: path, Args: slices.Concat(own, args), Dir: dir}) // one alone does not become ready
		if err != nil {
			return nil, err
		}
		e.Process = p
		p.endWith(tb)
	}
	for _, e := range members {
		e.command.Ready = e.ready
		if err := e.awaitReady(); err != nil {
			for _, m := range members {
				m.end()
			}
			return nil, err
		}
	}
	return members, nil
}

func (e *Etcd) awaitReady() error {
	err := errors.New("not asked yet")
	poll(startTime, func() bool {
		err = e.ready(0)
		return err == nil || e.exited(time.Millisecond)
	})
	if err != nil {
		return fmt.Errorf("etcd is not ready: %w\n%s", err, e.Log())
	}
	return nil
}
