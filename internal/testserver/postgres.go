package testserver

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// PostgresEnv is the environment variable with the URL of a running PostgreSQL that SharedPostgres is to use. Its user
// must be allowed to create databases and to look at other users' sessions.
const PostgresEnv = "FENCELOCK_TEST_POSTGRES_URL"

const postgresAdvice = "install postgresql"

// Postgres is a PostgreSQL server and one of its databases. A dedicated server (StartPostgres) may be paused, killed and
// restarted, all of its processes at once.
type Postgres struct {
	*Process
	client, admin *url.URL
}

// StartPostgres starts a PostgreSQL of this test's own on a free port of the loopback interface. Settings, such as
// "max_connections=20", win over ours. What was committed survives Kill, but nothing is synced to the disk: with "fsync=on"
// it is, which takes the time that it takes users.
func StartPostgres(tb testing.TB, settings ...string) *Postgres {
	tb.Helper()
	return startOwnPostgres(tb, nil, settings)
}

// startOwnPostgres calls prepare, if not nil, with the data directory before the server starts.
func startOwnPostgres(tb testing.TB, prepare func(*account, string) error, settings []string) *Postgres {
	tb.Helper()
	program := PostgresProgram(tb)
	s, err := newPostgres(program, tempDir(tb), prepare, settings)
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	s.endWith(tb)
	return s
}

// SharedPostgres returns the PostgreSQL that all tests of this binary share: the one at PostgresEnv, else one that is
// started by the first call and ended by Main. Use a database of your own (NewDatabase); it cannot be paused or killed.
func SharedPostgres(tb testing.TB) *Postgres {
	tb.Helper()
	if env := os.Getenv(PostgresEnv); env != "" {
		u, err := url.Parse(env)
		if err != nil {
			tb.Fatalf("testserver: %s is no URL: %v", PostgresEnv, err)
		}
		s := &Postgres{foreign(tb, PostgresEnv), u, u}
		if _, err := s.Try("SELECT 1"); err != nil {
			tb.Fatalf("testserver: %s: %v", PostgresEnv, err)
		}
		return s
	}
	program := postgresProgram(tb, postgresAdvice+" or set "+PostgresEnv)
	s := share(tb, func(dir string) (*Postgres, error) { return newPostgres(program, dir, nil, nil) })
	return &Postgres{s.lend(tb, "StartPostgres"), s.client, s.admin}
}

// NewDatabase returns the same server with a new empty database. That of a shared server is dropped when the test ends.
func (s *Postgres) NewDatabase(tb testing.TB) *Postgres {
	tb.Helper()
	name := fmt.Sprintf("fencelock_%x", rand.Uint64())
	s.Exec("CREATE DATABASE " + name + " OWNER " + s.client.User.Username())
	if s.foreign != "" {
		tb.Cleanup(func() {
			if _, err := s.Try("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
				tb.Errorf("testserver: %v", err)
			}
		})
	}
	return &Postgres{s.Process, withPath(s.client, name), withPath(s.admin, name)}
}

// URL returns where and as whom to connect: an ordinary user, who owns the database.
func (s *Postgres) URL() string { return s.client.String() }

// Addr returns host:port.
func (s *Postgres) Addr() string { return s.client.Host }

// Via returns the URL with another host:port, that of a Proxy.
func (s *Postgres) Via(addr string) string {
	u := *s.client
	u.Host = addr
	return u.String()
}

func newPostgres(program, dir string, prepare func(*account, string) error, settings []string) (*Postgres, error) {
	as, err := unprivileged("postgres")
	if err == nil {
		err = as.own(dir)
	}
	if err != nil {
		return nil, err
	}
	data, err := as.dataDir(dir, program, postgresInit, func(dir string) error { return initPostgres(as, program, dir) })
	if err == nil && prepare != nil {
		err = prepare(as, data)
	}
	if err != nil {
		return nil, err
	}
	s := &Postgres{}
	s.Process, err = startOnPort(func(port int) (Command, error) {
		at := url.URL{Scheme: "postgres", Host: loopback(port), RawQuery: "sslmode=disable"}
		s.client, s.admin = withPath(&at, "fencelock"), withPath(&at, "fencelock")
		s.client.User, s.admin.User = url.User("fencelock"), url.User("postgres")
		args := []string{"-D", data, "-p", strconv.Itoa(port)}
		for _, setting := range slices.Concat([]string{
			"listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=300",
			"fsync=off", "shared_buffers=32MB", "log_line_prefix=%m [%p] ",
		}, settings) {
			args = append(args, "-c", setting)
		}
		return Command{
			Path: program, Args: args, Dir: dir, As: as, Tree: true,
			Ready: func(pid int) error { return s.ready(data, pid) },
			Ended: func() { removeSharedMemory(data) },
		}, nil
	})
	return s, err
}

// postgresInit is run in a new data directory: the tests use an ordinary user, so that none relies on a superuser's rights.
const postgresInit = `CREATE ROLE fencelock LOGIN
CREATE DATABASE fencelock OWNER fencelock
`

func initPostgres(as *account, program, dir string) error {
	data := filepath.Join(dir, "data")
	err := as.run(dir, "", filepath.Join(filepath.Dir(program), "initdb"),
		"-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if err != nil {
		return err
	}
	return as.run(dir, postgresInit, program, "--single", "-D", data, "-c", "fsync=off", "postgres")
}

// ready reads the file that tells which process has the data and whether it serves. Another server may answer at the port.
func (s *Postgres) ready(data string, pid int) error {
	lines := pidFile(data)
	if len(lines) < 8 || lines[0] != strconv.Itoa(pid) || strings.TrimSpace(lines[7]) != "ready" {
		return fmt.Errorf("postmaster.pid says %q", lines)
	}
	_, err := s.Try("SELECT 1")
	return err
}

// pidFile returns the lines of postmaster.pid: 1 process id, 7 key and id of the shared memory, 8 state.
func pidFile(data string) []string {
	b, _ := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	return strings.Split(string(b), "\n")
}

// removeSharedMemory removes what a killed PostgreSQL leaves behind beside its files; the system has 4096 of these.
func removeSharedMemory(data string) {
	if lines := pidFile(data); len(lines) >= 7 {
		if words := strings.Fields(lines[6]); len(words) == 2 {
			_ = exec.Command("ipcrm", "-m", words[1]).Run() // gone already, or not ours: nothing to do
		}
	}
}

// PostgresProgram returns the path of the installed postgres. Without one the test is skipped as by Missing.
func PostgresProgram(tb testing.TB) string {
	tb.Helper()
	return postgresProgram(tb, postgresAdvice)
}

// postgresProgram looks in PATH and where Debian keeps the newest version.
func postgresProgram(tb testing.TB, advice string) string {
	tb.Helper()
	installed, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	slices.SortFunc(installed, func(a, b string) int { return cmp.Compare(postgresVersion(b), postgresVersion(a)) })
	program := Binary(tb, advice, slices.Concat([]string{"postgres"}, installed)...)
	if real, err := filepath.EvalSymlinks(program); err == nil {
		return real // initdb lies beside it
	}
	return program
}

// postgresVersion reads the version in /usr/lib/postgresql/15/bin/postgres.
func postgresVersion(path string) float64 {
	v, _ := strconv.ParseFloat(filepath.Base(filepath.Dir(filepath.Dir(path))), 64)
	return v
}

func withPath(u *url.URL, database string) *url.URL {
	v := *u
	v.Path = "/" + database
	return &v
}
