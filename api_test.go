package fencelock_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var updateAPI = flag.Bool("update-api", false, "write api.txt")

// What users can name is listed in api.txt, so that a change of it is seen in
// review, and a break of it is no accident.
func TestAPI(t *testing.T) {
	got := strings.Join(api(t), "\n") + "\n"
	if *updateAPI {
		if err := os.WriteFile("api.txt", []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("api.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(text)), "\n")
	have := strings.Split(strings.TrimSpace(got), "\n")
	for _, line := range want {
		if !slices.Contains(have, line) {
			t.Errorf("gone:  %s", line)
		}
	}
	for _, line := range have {
		if !slices.Contains(want, line) {
			t.Errorf("added: %s", line)
		}
	}
	if t.Failed() {
		t.Log("If that is meant: go test -run TestAPI . -update-api, a line in CHANGELOG.md, and see Versions in CONTRIBUTING.md")
	}
}

// api lists the exported names of all packages that others can import.
func api(t *testing.T) (lines []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		case path != "." && strings.HasPrefix(d.Name(), "."), slices.Contains([]string{"internal", "cmd", "examples", "bench", "docs"}, d.Name()):
			return filepath.SkipDir
		}
		files, err := filepath.Glob(filepath.Join(path, "*.go"))
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, line := range exported(f) {
				lines = append(lines, "pkg "+path+", "+line)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	if lines = slices.Compact(lines); len(lines) < 100 {
		t.Fatalf("only %d names", len(lines))
	}
	return lines
}

func exported(f *ast.File) (lines []string) {
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if !d.Name.IsExported() || d.Recv != nil && !ast.IsExported(receiver(d)) {
				continue
			}
			d.Body, d.Doc = nil, nil
			if d.Recv != nil {
				d.Recv.List[0].Names = nil
			}
			lines = append(lines, text(d))
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				lines = append(lines, exportedOf(d.Tok, spec)...)
			}
		}
	}
	return lines
}

// receiver is the name of a method's type.
func receiver(d *ast.FuncDecl) string {
	name := strings.TrimLeft(text(d.Recv.List[0].Type), "*")
	name, _, _ = strings.Cut(name, "[")
	return name
}

func exportedOf(tok token.Token, spec ast.Spec) (lines []string) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if !name.IsExported() {
				continue
			}
			line := tok.String() + " " + name.Name
			if s.Type != nil {
				line += " " + text(s.Type)
			}
			lines = append(lines, line)
		}
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return nil
		}
		head := "type " + s.Name.Name
		var members *ast.FieldList
		switch u := s.Type.(type) {
		case *ast.StructType:
			head, members = head+" struct", u.Fields
		case *ast.InterfaceType:
			head, members = head+" interface", u.Methods
		default:
			return []string{head + " " + text(s.Type)}
		}
		lines = append(lines, head)
		for _, m := range members.List {
			for _, name := range m.Names {
				if name.IsExported() {
					lines = append(lines, head+", "+name.Name+" "+text(m.Type))
				}
			}
			if name := text(m.Type); len(m.Names) == 0 && ast.IsExported(name[strings.LastIndexAny(name, ".*")+1:]) {
				lines = append(lines, head+", "+name) // embedded
			}
		}
	}
	return lines
}

// text is a node in one line.
func text(node any) string {
	var b strings.Builder
	if err := (&printer.Config{Mode: printer.RawFormat}).Fprint(&b, token.NewFileSet(), node); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
