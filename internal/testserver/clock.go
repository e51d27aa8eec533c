package testserver

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// StepClock moves the wall clock of the server by d, forth or back, as a bad NTP server or an administrator would; its
// monotonic clock goes on undisturbed. Steps add up, and outlive Restart. Needs Linux and a C compiler.
func (r *Redis) StepClock(d time.Duration) {
	r.tb.Helper()
	r.mine()
	if r.clock == nil {
		_, err := clockShim()
		Missing(r.tb, "the clock of a server cannot be stepped: %v", err)
	}
	atomic.AddInt64(r.clock.offset, int64(d))
}

// clock is the file through which a server's wall clock is moved.
type clock struct {
	shim, file string
	offset     *int64 // mapped: a plain write could be seen half done
}

// newClock returns nil if this machine cannot step clocks; StepClock then says so.
func newClock(tb testing.TB, dir string) *clock {
	tb.Helper()
	shim, err := clockShim()
	if err != nil {
		return nil
	}
	c := &clock{shim: shim, file: filepath.Join(dir, "clock")}
	if err := os.WriteFile(c.file, make([]byte, 8), 0o644); err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	f, err := os.OpenFile(c.file, os.O_RDWR, 0)
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	defer f.Close()
	page, err := syscall.Mmap(int(f.Fd()), 0, 8, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		tb.Fatalf("testserver: %v", err)
	}
	tb.Cleanup(func() { _ = syscall.Munmap(page) })
	c.offset = (*int64)(unsafe.Pointer(&page[0]))
	return c
}

func (c *clock) env() []string {
	if c == nil {
		return nil
	}
	return []string{"LD_PRELOAD=" + c.shim, "FENCELOCK_CLOCK=" + c.file}
}

//go:embed clockshim/clock.c
var clockSource []byte

// clockShim compiles the library that is preloaded, once a machine, and returns its path.
var clockShim = sync.OnceValues(func() (string, error) {
	if runtime.GOOS != "linux" {
		return "", errors.New("only on Linux")
	}
	var cc string
	for _, name := range []string{"cc", "gcc", "clang"} {
		if path, err := exec.LookPath(name); err == nil {
			cc = path
			break
		}
	}
	if cc == "" {
		return "", errors.New("install a C compiler (gcc)")
	}
	return cached("clock-"+runtime.GOARCH, string(clockSource), func(path string) error {
		source := filepath.Join(filepath.Dir(path), "clock.c")
		if err := os.WriteFile(source, clockSource, 0o644); err != nil {
			return err
		}
		if msg, err := exec.Command(cc, "-shared", "-fPIC", "-O2", "-Wall", "-o", path, source).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", cc, err, msg)
		}
		return nil
	})
})
