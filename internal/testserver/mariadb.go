package testserver

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// MySQLEnv is the environment variable with the DSN, as github.com/go-sql-driver/mysql takes it, of a running MariaDB or
// MySQL that SharedMariaDB is to use. Its user must be allowed to create databases and to look at other users' threads.
const MySQLEnv = "FENCELOCK_TEST_MYSQL_DSN"

const mariaAdvice = "install mariadb-server"

// MariaDB is a MariaDB server and one of its databases. A dedicated server (StartMariaDB) may be paused, killed and
// restarted.
type MariaDB struct {
	*Process
	client, admin *mysql.Config
}

// StartMariaDB starts a MariaDB of this test's own on a free port of the loopback interface. args are given to mariadbd and
// win over ours. What was committed survives Kill, but a commit does not wait for the disk: with
// "--innodb-flush-log-at-trx-commit=1" it does, which takes the time that it takes users.
func StartMariaDB(tb testing.TB, args ...string) *MariaDB {
	tb.Helper()
	s, err := newMariaDB(mariaProgram(tb, mariaAdvice), tempDir(tb), args)
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	s.endWith(tb)
	return s
}

// SharedMariaDB returns the MariaDB that all tests of this binary share: the one at MySQLEnv, else one that is started by
// the first call and ended by Main. Use a database of your own (NewDatabase); it cannot be paused or killed.
func SharedMariaDB(tb testing.TB) *MariaDB {
	tb.Helper()
	if env := os.Getenv(MySQLEnv); env != "" {
		config, err := mysql.ParseDSN(env)
		if err != nil {
			tb.Fatalf("testserver: %s is no DSN: %v", MySQLEnv, err)
		}
		s := &MariaDB{foreign(tb, MySQLEnv), config, config}
		if _, err := s.Try("SELECT 1"); err != nil {
			tb.Fatalf("testserver: %s: %v", MySQLEnv, err)
		}
		return s
	}
	program := mariaProgram(tb, mariaAdvice+" or set "+MySQLEnv)
	s := share(tb, func(dir string) (*MariaDB, error) { return newMariaDB(program, dir, nil) })
	return &MariaDB{s.lend(tb, "StartMariaDB"), s.client, s.admin}
}

// NewDatabase returns the same server with a new empty database. That of a shared server is dropped when the test ends.
func (s *MariaDB) NewDatabase(tb testing.TB) *MariaDB {
	tb.Helper()
	name := fmt.Sprintf("fencelock_%x", rand.Uint64())
	s.Exec("CREATE DATABASE " + name)
	if s.foreign != "" {
		tb.Cleanup(func() {
			if _, err := s.Try("DROP DATABASE " + name); err != nil {
				tb.Errorf("testserver: %v", err)
			}
		})
	}
	client, admin := s.client.Clone(), s.admin.Clone()
	client.DBName, admin.DBName = name, name
	return &MariaDB{s.Process, client, admin}
}

// DSN returns where and as whom to connect: an ordinary user with all rights on the data of all databases and none on the
// server.
func (s *MariaDB) DSN() string { return s.client.FormatDSN() }

// Addr returns host:port.
func (s *MariaDB) Addr() string { return s.client.Addr }

// Via returns the DSN with another host:port, that of a Proxy.
func (s *MariaDB) Via(addr string) string {
	config := s.client.Clone()
	config.Addr = addr
	return config.FormatDSN()
}

// mariaInit is run in a new data directory: the tests use an ordinary user, so that none relies on root's rights.
const mariaInit = `FLUSH PRIVILEGES;
CREATE DATABASE fencelock;
CREATE USER fencelock@'%';
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, REFERENCES, LOCK TABLES, CREATE TEMPORARY TABLES,
  CREATE VIEW, SHOW VIEW, EXECUTE, CREATE ROUTINE, ALTER ROUTINE, TRIGGER, EVENT ON *.* TO fencelock@'%';
`

// mariaLog is the size of a new data directory's log, which the server must be told, too.
const mariaLog = "--innodb-log-file-size=16M"

func newMariaDB(program, dir string, args []string) (*MariaDB, error) {
	as, err := unprivileged("mysql")
	if err == nil {
		err = as.own(dir)
	}
	if err != nil {
		return nil, err
	}
	data, err := as.dataDir(dir, program, mariaInit+mariaLog, func(dir string) error { return initMariaDB(as, program, dir) })
	if err != nil {
		return nil, err
	}
	s, pidFile := &MariaDB{}, filepath.Join(dir, "pid")
	s.Process, err = startOnPort(func(port int) (Command, error) {
		at := mysql.NewConfig()
		at.Net, at.Addr, at.DBName = "tcp", loopback(port), "fencelock"
		s.client, s.admin = at, at.Clone()
		s.client.User, s.admin.User = "fencelock", "root"
		return Command{
			Path: program, Dir: dir, As: as, Ready: func(pid int) error { return s.ready(pidFile, pid) },
			Args: slices.Concat([]string{
				"--no-defaults", "--datadir=" + data, "--pid-file=" + pidFile, "--socket=" + filepath.Join(dir, "socket"),
				"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(port), "--skip-name-resolve", "--max-connections=300",
				mariaLog, "--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=2", "--innodb-use-native-aio=0",
			}, args),
		}, nil
	})
	return s, err
}

func initMariaDB(as *account, program, dir string) error {
	extra := filepath.Join(dir, "init.sql")
	if err := os.WriteFile(extra, []byte(mariaInit), 0o644); err != nil {
		return err
	}
	install := "mariadb-install-db"
	if bin := filepath.Join(filepath.Dir(filepath.Dir(program)), "bin", install); exists(bin) {
		install = bin
	}
	return as.run(dir, "", install, "--no-defaults", "--datadir="+filepath.Join(dir, "data"), "--skip-test-db",
		"--auth-root-authentication-method=normal", "--skip-name-resolve", "--extra-file="+extra, mariaLog, "--innodb-use-native-aio=0")
}

// ready compares process ids: another server may answer at the port.
func (s *MariaDB) ready(pidFile string, pid int) error {
	b, _ := os.ReadFile(pidFile)
	if strings.TrimSpace(string(b)) != strconv.Itoa(pid) {
		return fmt.Errorf("%s says %q", pidFile, b)
	}
	_, err := s.Try("SELECT 1")
	return err
}

func mariaProgram(tb testing.TB, advice string) string {
	tb.Helper()
	return Binary(tb, advice, "mariadbd", "/usr/sbin/mariadbd")
}
