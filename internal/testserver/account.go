package testserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// account is the user that a server runs as which refuses to run as root. Nil stands for the user of the test.
type account struct{ uid, gid int }

// unprivileged returns the first of these users that exists, if the test runs as root, else nil.
func unprivileged(names ...string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range append(names, "nobody") {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		return &account{uid, gid}, errors.Join(err1, err2)
	}
	return nil, fmt.Errorf("root may not run this server, and there is no user %s or nobody", strings.Join(names, " or "))
}

// attributes are those of a child process that runs as this user and dies with ours.
func (a *account) attributes() *syscall.SysProcAttr {
	attr := dieWithParent()
	if a != nil {
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attr
}

// own gives the user a file or directory.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}

// run runs a program as this user until it ends.
func (a *account) run(dir, input, path string, args ...string) error {
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.SysProcAttr, cmd.Stdin = dir, a.attributes(), strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", path, err, out)
	}
	return nil
}
