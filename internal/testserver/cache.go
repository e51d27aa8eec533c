package testserver

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// cached returns the path of a file or directory that is made once a machine, or again when key has changed: key names
// all that it depends on.
func cached(kind, key string, build func(path string) error) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = filepath.Join(os.TempDir(), fmt.Sprint("cache-", os.Getuid()))
	}
	dir := filepath.Join(cache, "fencelock")
	path := filepath.Join(dir, fmt.Sprintf("%s-%x", kind, sha256.Sum256([]byte(key))))
	if exists(path) {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// Built under another name and renamed: test binaries of other packages may do the same now.
	work, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	made := filepath.Join(work, kind)
	if err := build(made); err != nil {
		return "", err
	}
	if err := os.Rename(made, path); err != nil && !exists(path) {
		return "", err
	}
	return path, nil
}

// dataDir copies a server's initial data to dir/data. Making them takes a second, so it is done once a machine: init
// gets a directory of this user, and makes "data" in it. program is the one whose data they are; version changes when
// init does.
func (a *account) dataDir(dir, program, version string, init func(dir string) error) (data string, err error) {
	info, err := os.Stat(program)
	if err != nil {
		return "", err
	}
	key := fmt.Sprint(program, info.Size(), info.ModTime(), a, version)
	template, err := cached(filepath.Base(program), key, func(path string) error {
		work, err := os.MkdirTemp("", "fencelock-") // the cache may lie where the other user cannot go
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		if err := a.own(work); err != nil {
			return err
		}
		if err := init(work); err != nil {
			return err
		}
		return copyAll(filepath.Join(work, "data"), path)
	})
	if err != nil {
		return "", err
	}
	data = filepath.Join(dir, "data")
	return data, copyAll(template, data)
}

// copyAll copies a directory with its owner and permissions.
func copyAll(from, to string) error {
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w: %s", err, out)
	}
	return nil
}
