package testserver

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Bouncer is a PgBouncer in front of a PostgreSQL. It may be paused, killed and restarted, too.
type Bouncer struct {
	*Process
	client, console *url.URL
}

// PgBouncer starts a PgBouncer of this test's own in front of a server, pooling by transaction. Settings, such as
// "default_pool_size=1" or "pool_mode=session", win over ours.
func PgBouncer(tb testing.TB, server *Postgres, settings ...string) *Bouncer {
	tb.Helper()
	program := Binary(tb, "install pgbouncer", "pgbouncer", "/usr/sbin/pgbouncer")
	b, err := newBouncer(program, tempDir(tb), server, settings)
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	b.endWith(tb)
	return b
}

// URL returns where to connect: the database of the given Postgres, through the pooler.
func (b *Bouncer) URL() string { return b.client.String() }

// Addr returns host:port.
func (b *Bouncer) Addr() string { return b.client.Host }

// Console runs a command of the admin console, such as "SHOW POOLS", and returns its rows, columns joined by "|".
func (b *Bouncer) Console(command string) []string {
	b.tb.Helper()
	rows, err := queryPostgres(b.console.String(), command, nil)
	if err != nil {
		b.tb.Fatalf("testserver: %q at PgBouncer: %v", command, err)
	}
	return rows
}

func newBouncer(program, dir string, server *Postgres, settings []string) (*Bouncer, error) {
	as, err := unprivileged("postgres")
	if err == nil {
		err = as.own(dir)
	}
	if err != nil {
		return nil, err
	}
	ini, b := filepath.Join(dir, "pgbouncer.ini"), &Bouncer{}
	b.Process, err = startOnPort(func(port int) (Command, error) {
		b.client, b.console = withHost(server.client, loopback(port)), withHost(withPath(server.client, "pgbouncer"), loopback(port))
		host, behind := hostPort(server.Addr())
		text := fmt.Sprintf("[databases]\n* = host=%s port=%s user=%s\n[pgbouncer]\n%s\n", host, behind, server.client.User.Username(),
			strings.Join(slices.Concat([]string{
				"listen_addr = 127.0.0.1", fmt.Sprint("listen_port = ", port), "unix_socket_dir =",
				"auth_type = any", "pool_mode = transaction", "max_client_conn = 500",
				"job_name = " + filepath.Base(dir),
			}, settings), "\n"))
		err := os.WriteFile(ini, []byte(text), 0o644)
		return Command{Path: program, Args: []string{ini}, Dir: dir, As: as, Ready: func(int) error { return b.ready(ini) }}, err
	})
	return b, err
}

// ready asks which file the answering PgBouncer has read: another one may answer at the port.
func (b *Bouncer) ready(ini string) error {
	config, err := queryPostgres(b.console.String(), "SHOW CONFIG", nil)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(config, func(row string) bool { return strings.HasPrefix(row, "conffile|"+ini+"|") }) {
		return fmt.Errorf("another PgBouncer answers at %s", b.Addr())
	}
	_, err = queryPostgres(b.client.String(), "SELECT 1", nil)
	return err
}

func withHost(u *url.URL, host string) *url.URL {
	v := *u
	v.Host = host
	return &v
}
