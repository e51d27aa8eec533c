package testserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// EtcdAddrEnv is the environment variable with the host:port of a running etcd that SharedEtcd is to use.
const EtcdAddrEnv = "FENCELOCK_TEST_ETCD_ADDR"

// Etcd is an etcd server, alone or a member of a cluster (EtcdCluster). A dedicated one may be paused, killed and
// restarted; what it has acknowledged survives that.
type Etcd struct {
	*Process
	name, addr, peer string
}

// StartEtcd starts an etcd of this test's own on free ports of the loopback interface. args are given to it and win over
// ours.
func StartEtcd(tb testing.TB, args ...string) *Etcd {
	tb.Helper()
	return startEtcds(tb, 1, args)[0]
}

// SharedEtcd returns the etcd that all tests of this binary share: the one at EtcdAddrEnv, else one that is started by
// the first call and ended by Main. Use keys of your own (Prefix); it cannot be paused or killed.
func SharedEtcd(tb testing.TB) *Etcd {
	tb.Helper()
	if addr := os.Getenv(EtcdAddrEnv); addr != "" {
		e := &Etcd{Process: foreign(tb, EtcdAddrEnv), addr: addr}
		if err := e.ask("version", nil, new(struct{})); err != nil {
			tb.Fatalf("testserver: %s=%s: %v", EtcdAddrEnv, addr, err)
		}
		return e
	}
	path := etcdBinary(tb)
	e := share(tb, func(dir string) (*Etcd, error) {
		members, err := newEtcds(path, []string{dir}, nil)
		if err != nil {
			return nil, err
		}
		return members[0], nil
	})
	return &Etcd{Process: e.lend(tb, "StartEtcd"), name: e.name, addr: e.addr, peer: e.peer}
}

// Addr returns host:port for clients.
func (e *Etcd) Addr() string { return e.addr }

// Metric returns the sum of a metric's samples whose labels contain one of these texts, or of all without them.
func (e *Etcd) Metric(name string, labels ...string) int {
	e.tb.Helper()
	resp, err := etcdHTTP.Get("http://" + e.addr + "/metrics")
	if err != nil {
		e.tb.Fatalf("testserver: metrics of etcd: %v", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		e.tb.Fatalf("testserver: metrics of etcd: %v", err)
	}
	sum := 0.0
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		if len(labels) == 0 || slices.ContainsFunc(labels, func(l string) bool { return strings.Contains(rest, l) }) {
			f := strings.Fields(rest)
			value, _ := strconv.ParseFloat(f[len(f)-1], 64)
			sum += value
		}
	}
	return int(sum)
}

// etcdHTTP keeps no connections, whose goroutines would be taken for leaks.
var etcdHTTP = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// ask reads the answer to a GET or, with a body, a POST.
func (e *Etcd) ask(path string, body io.Reader, answer any) error {
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequest(method, "http://"+e.addr+"/"+path, body)
	if err != nil {
		return err
	}
	resp, err := etcdHTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd: %s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}

// id returns the member's id, nothing if it does not answer.
func (e *Etcd) id() string {
	var list struct {
		Members []struct{ ID, Name string }
	}
	_ = e.ask("v3/cluster/member/list", strings.NewReader("{}"), &list)
	for _, m := range list.Members {
		if m.Name == e.name {
			return m.ID
		}
	}
	return ""
}

// leader returns the id of the member that leads as far as this one knows, nothing if it does not answer.
func (e *Etcd) leader() string {
	var status struct{ Leader string }
	_ = e.ask("v3/maintenance/status", strings.NewReader("{}"), &status)
	return status.Leader
}

// ready knows its own member by the random name: a server that took the port before ours would answer, too.
func (e *Etcd) ready(int) error {
	var health struct{ Health, Reason string }
	if err := e.ask("health", nil, &health); err != nil {
		return err
	}
	if health.Health != "true" {
		return fmt.Errorf("not healthy: %s", health.Reason)
	}
	if e.id() == "" {
		return fmt.Errorf("no member %s", e.name)
	}
	return nil
}

func startEtcds(tb testing.TB, size int, args []string) []*Etcd {
	tb.Helper()
	path, dirs := etcdBinary(tb), make([]string, size)
	for i := range dirs {
		dirs[i] = tempDir(tb)
	}
	members, err := newEtcds(path, dirs, args)
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	for _, e := range members {
		e.endWith(tb)
	}
	return members
}

// newEtcds starts a cluster with a member in each of the folders, on other ports if somebody else takes one first.
func newEtcds(path string, dirs, args []string) ([]*Etcd, error) {
	for attempt := 0; ; attempt++ {
		members, err := tryEtcds(path, dirs, args)
		if err == nil || attempt == 10 || !strings.Contains(err.Error(), "address already in use") {
			return members, err
		}
		for _, e := range members {
			_ = os.Remove(e.log)
			_ = os.RemoveAll(e.Dir() + "/data")
		}
	}
}

func tryEtcds(path string, dirs, args []string) (members []*Etcd, err error) {
	token := fmt.Sprintf("fencelock-%x", rand.Uint64())
	var cluster []string
	for i := range dirs {
		client, err1 := nextPort()
		peer, err2 := nextPort()
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		e := &Etcd{name: fmt.Sprintf("%s-%d", token, i), addr: loopback(client), peer: "http://" + loopback(peer)}
		members, cluster = append(members, e), append(cluster, e.name+"="+e.peer)
	}
	for i, e := range members {
		own := []string{
			"--name", e.name, "--data-dir", dirs[i] + "/data", "--log-level", "warn",
			"--listen-client-urls", "http://" + e.addr, "--advertise-client-urls", "http://" + e.addr,
			"--listen-peer-urls", e.peer, "--initial-advertise-peer-urls", e.peer,
			"--initial-cluster", strings.Join(cluster, ","), "--initial-cluster-token", token,
			"--unsafe-no-fsync", // tests kill processes, not machines
		}
		// One alone does not become ready, so all are started before the first is waited for.
		e.Process, err = start(Command{Path: path, Args: slices.Concat(own, args), Dir: dirs[i]})
		if err != nil {
			return members[:i], err
		}
	}
	for _, e := range members {
		e.command.Ready = e.ready
		if err == nil {
			err = e.awaitReady()
		}
	}
	if err != nil {
		for _, e := range members {
			e.end()
		}
	}
	return members, err
}
