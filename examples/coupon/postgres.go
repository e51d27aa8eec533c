package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// postgresStart bounds the wait for PostgreSQL to answer.
const postgresStart = 60 * time.Second

// postgres is a throw-away PostgreSQL from this machine's binaries.
type postgres struct {
	url string
	dir string
	cmd *exec.Cmd
	log bytes.Buffer

	ended chan struct{} // closed when it has, with how
	how   error
}

func startPostgres(ctx context.Context) (p *postgres, err error) {
	initdb, err := findPostgres("initdb")
	if err != nil {
		return nil, err
	}
	p = &postgres{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	if p.dir, err = os.MkdirTemp("", "coupon-postgres-"); err != nil {
		return p, err
	}
	as, err := unprivileged(p.dir)
	if err != nil {
		return p, err
	}
	data := filepath.Join(p.dir, "data")
	init := exec.Command(initdb, "-D", data, "-U", "coupon", "-A", "trust", "-E", "UTF8", "--no-sync")
	init.Dir, init.SysProcAttr = p.dir, as
	if out, err := init.CombinedOutput(); err != nil {
		return p, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	port, err := freePort()
	if err != nil {
		return p, err
	}
	p.url = fmt.Sprintf("postgres://coupon@127.0.0.1:%d/postgres?sslmode=disable", port)
	p.cmd = exec.Command(filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data,
		"-h", "127.0.0.1", "-p", strconv.Itoa(port), "-k", "")
	p.cmd.Dir, p.cmd.SysProcAttr = p.dir, as
	p.cmd.Stderr = &p.log
	if err := p.cmd.Start(); err != nil {
		p.cmd = nil
		return p, err
	}
	p.ended = make(chan struct{})
	go func() {
		defer close(p.ended)
		p.how = p.cmd.Wait()
	}()
	return p, p.answers(ctx)
}

// answers waits until the server does.
func (p *postgres) answers(ctx context.Context) error {
	db, err := openDatabase(p.url)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(ctx, postgresStart)
	defer cancel()
	for {
		if err = db.PingContext(ctx); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("postgres does not answer: %w", err)
		case <-p.ended:
			return errors.New("postgres ended before it answered")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stop ends the server and removes its data.
func (p *postgres) stop() error {
	var err error
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(syscall.SIGINT) // its fast shutdown
		kill := time.AfterFunc(stopWait, func() { _ = p.cmd.Process.Kill() })
		<-p.ended
		kill.Stop()
		if p.how != nil {
			err = fmt.Errorf("postgres: %w\n%s", p.how, p.log.Bytes())
		}
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}

// findPostgres looks for a program of PostgreSQL in PATH and where Debian keeps
// the newest version.
func findPostgres(program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return filepath.EvalSymlinks(path)
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("no %s found: install postgresql", program)
	}
	return slices.MaxFunc(found, func(a, b string) int { return cmp.Compare(version(a), version(b)) }), nil
}

// version reads the version in /usr/lib/postgresql/15/bin/postgres.
func version(path string) float64 {
	v, _ := strconv.ParseFloat(filepath.Base(filepath.Dir(filepath.Dir(path))), 64)
	return v
}

// unprivileged gives dir to a user who is not root, as whom PostgreSQL refuses
// to run.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	attributes := dieWithParent()
	if os.Geteuid() != 0 {
		return attributes, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return attributes, os.Chown(dir, int(uid), int(gid))
	}
	return nil, errors.New("root may not run PostgreSQL, and there is no user postgres or nobody")
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
