package fencelock_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/fencelock/fencelock"

// client is the module that a backend imports, and those that it brings along.
type client struct {
	module string
	brings []string
}

var goRedis = client{
	module: "github.com/redis/go-redis/v9",
	brings: []string{"github.com/cespare/xxhash/v2", "github.com/dgryski/go-rendezvous"},
}

// backends says which client each imports, if any: whoever imports one backend
// must get nothing of another's.
var backends = map[string]client{
	"mem":     {},
	"redis":   goRedis,
	"redlock": goRedis,
	"mysql":   {}, // database/sql: the driver is the caller's
	"pg": {
		module: "github.com/jackc/pgx/v5",
		brings: []string{
			"github.com/jackc/pgpassfile", "github.com/jackc/pgservicefile", "github.com/jackc/puddle/v2",
			"golang.org/x/crypto", "golang.org/x/sync", "golang.org/x/text",
		},
	},
	"etcd": {
		module: "go.etcd.io/etcd/client/v3",
		brings: []string{
			"github.com/coreos/go-semver", "github.com/coreos/go-systemd/v22", "github.com/gogo/protobuf", "github.com/golang/protobuf",
			"go.etcd.io/etcd/api/v3", "go.etcd.io/etcd/client/pkg/v3", "go.uber.org/atomic", "go.uber.org/multierr", "go.uber.org/zap",
			"golang.org/x/net", "golang.org/x/sys", "golang.org/x/text", "google.golang.org/genproto/googleapis/api",
			"google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc", "google.golang.org/protobuf",
		},
	},
	"zk": {module: "github.com/go-zookeeper/zk"},
}

type listed struct {
	ImportPath string
	Standard   bool
	Module     *struct{ Path string }
	Deps       []string
}

// within returns a package's path below the module's root, "." for the root
// itself, and "" for a package of another module.
func (p listed) within() string {
	switch rest, ours := strings.CutPrefix(p.ImportPath, module+"/"); {
	case ours:
		return rest
	case p.ImportPath == module:
		return "."
	}
	return ""
}

// list returns all packages of this module and what they need to be built
// (tests not counted), by import path.
func list(t *testing.T) map[string]listed {
	t.Helper()
	// go test keeps a result until a folder changes that the test has looked
	// into itself; what go list reads does not count.
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != "." && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Module,Deps", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	packages := map[string]listed{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
}

// needs splits what a package needs, beyond the standard library, into our own
// packages and other people's modules.
func needs(t *testing.T, packages map[string]listed, path string) (own, modules []string) {
	t.Helper()
	p, ok := packages[path]
	if !ok {
		t.Fatalf("there is no package %s", path)
	}
	for _, d := range p.Deps {
		switch dep := packages[d]; {
		case dep.within() != "":
			own = append(own, dep.within())
		case !dep.Standard && dep.Module != nil && !slices.Contains(modules, dep.Module.Path):
			modules = append(modules, dep.Module.Path)
		}
	}
	return own, modules
}

// surplus returns what of got is not in allowed.
func surplus(got []string, allowed ...string) []string {
	return slices.DeleteFunc(slices.Clone(got), func(s string) bool { return slices.Contains(allowed, s) })
}

// Arrows only go down: what stands below the backends imports the standard
// library and, of ours, only what stands below it.
func TestFoundationsImportStdOnly(t *testing.T) {
	packages := list(t)
	for path, allowed := range map[string][]string{
		module:                       {"internal/option"},
		module + "/internal/option":  {},
		module + "/internal/lease":   {".", "internal/option"},
		module + "/internal/session": {".", "internal/option", "internal/lease"},
		module + "/internal/sqlkit":  {".", "internal/option", "internal/lease"},
		module + "/locktest":         {".", "internal/option"},
		module + "/slogobserver":     {".", "internal/option"},
	} {
		own, modules := needs(t, packages, path)
		if bad := surplus(own, allowed...); len(bad) > 0 {
			t.Errorf("%s may not import our %q", path, bad)
		}
		if len(modules) > 0 {
			t.Errorf("%s may import the standard library only, not %q", path, modules)
		}
	}
}

func TestBackendsImportOnlyTheirOwnClient(t *testing.T) {
	packages := list(t)
	for name, client := range backends {
		own, modules := needs(t, packages, module+"/"+name)
		for other := range backends {
			if slices.Contains(own, other) {
				t.Errorf("%s imports the backend %s", name, other)
			}
		}
		if bad := surplus(own, ".", "internal/option", "internal/lease", "internal/redisnode", "internal/session", "internal/sqlkit"); len(bad) > 0 {
			t.Errorf("%s may not import our %q", name, bad)
		}
		if bad := surplus(modules, append(client.brings, client.module)...); len(bad) > 0 {
			t.Errorf("%s pulls in %q", name, bad)
		}
		if client.module != "" && !slices.Contains(modules, client.module) {
			t.Errorf("%s does not import its client %s, only %q", name, client.module, modules)
		}
	}
}

// The command may import every backend and its client, and a library for its
// command line that brings nothing along; nobody may import the command.
func TestTheCommandsDependencies(t *testing.T) {
	packages := list(t)
	allowed := []string{"github.com/urfave/cli/v3", "github.com/go-sql-driver/mysql", "filippo.io/edwards25519"}
	for _, c := range backends {
		allowed = append(append(allowed, c.module), c.brings...)
	}
	own, modules := needs(t, packages, module+"/cmd/fencelock")
	if bad := surplus(modules, allowed...); len(bad) > 0 {
		t.Errorf("cmd/fencelock pulls in %q", bad)
	}
	if i := slices.IndexFunc(own, func(p string) bool { return strings.HasPrefix(p, "internal/test") || p == "locktest" }); i >= 0 {
		t.Errorf("cmd/fencelock may not import %s", own[i])
	}
	for _, p := range packages {
		if p.within() == "" || p.within() == "cmd/fencelock" {
			continue
		}
		if _, modules := needs(t, packages, p.ImportPath); slices.Contains(modules, "github.com/urfave/cli/v3") {
			t.Errorf("%s imports the command line's library", p.ImportPath)
		}
	}
}

// go install …@latest refuses a module that replaces or excludes others.
func TestTheCommandCanBeInstalled(t *testing.T) {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 0 && (f[0] == "replace" || f[0] == "exclude") {
			t.Errorf("go.mod has %q", strings.TrimSpace(line))
		}
	}
	if _, ok := list(t)[module+"/cmd/fencelock"]; !ok {
		t.Error("cmd/fencelock is not in the root module")
	}
}

// Every public package is either looked at above or known to be no backend.
func TestEveryBackendIsListed(t *testing.T) {
	for _, p := range list(t) {
		name := p.within()
		if name == "" || name == "." || name == "locktest" || name == "slogobserver" || strings.HasPrefix(name, "internal/") || strings.HasPrefix(name, "cmd/") {
			continue
		}
		if _, ok := backends[name]; !ok {
			t.Errorf("the package %s is new: say in backends which client it imports", name)
		}
	}
}
