package fencelock_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages are what people read.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*/*.md", ".github/*.md", ".github/*/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[file] = string(text)
		}
	}
	if len(texts) < 10 {
		t.Fatalf("only %d pages", len(texts))
	}
	return texts
}

// bare is code without indentation and empty lines.
func bare(code string) string {
	var lines []string
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return "\n" + strings.Join(lines, "\n") + "\n"
}

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// omitted is a line in a page that stands for any lines of the code.
const omitted = "\n// …\n"

// quotes reports whether all parts of a block stand in a file, in their order.
func quotes(block, file string) bool {
	for part := range strings.SplitSeq(block, omitted) {
		_, after, found := strings.Cut(file, "\n"+strings.Trim(part, "\n")+"\n")
		if !found {
			return false
		}
		file = "\n" + after
	}
	return true
}

// Go code in a page stands, word by word, in a file that is compiled: an example of
// a package, for most.
func TestPagesQuoteCodeThatCompiles(t *testing.T) {
	var code []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go":
			return nil
		}
		text, err := os.ReadFile(path)
		code = append(code, bare(string(text)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for file, page := range pages(t) {
		if file == "CONTRIBUTING.md" { // for a database that there is not
			continue
		}
		for _, block := range goBlock.FindAllStringSubmatch(page, -1) {
			if !slices.ContainsFunc(code, func(file string) bool { return quotes(bare(block[1]), file) }) {
				t.Errorf("%s: no file has this code:\n%s", file, block[1])
			}
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)|(?:src|srcset)="([^"]+)"`)

func TestPagesLinkToWhatExists(t *testing.T) {
	for file, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(page, -1) {
			target := m[1] + m[3]
			if strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), target)); err != nil {
				t.Errorf("%s links to %s: %v", file, target, err)
			}
		}
	}
}
