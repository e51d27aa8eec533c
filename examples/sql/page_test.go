package sql

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const page = "../../docs/sql.md"

// blocks returns the code blocks of the page in one language.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	var found []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		found = append(found, strings.TrimSpace(m[1]))
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func TestThePageShowsCodeThatCompiles(t *testing.T) {
	code := read(t, "postgres.go") + read(t, "mysql.go")
	shown := blocks(t, "go")
	for _, block := range shown {
		require.Contains(t, code, block, "copy the function of examples/sql to docs/sql.md")
	}
	for _, name := range []string{"payInvoice", "renameInvoice", "addToInvoice", "payInvoiceMySQL", "addToInvoiceMySQL"} {
		require.Contains(t, strings.Join(shown, "\n"), "func "+name+"(")
	}
}

func TestThePageShowsTheTables(t *testing.T) {
	shown := blocks(t, "sql")
	require.Contains(t, shown, strings.TrimSpace(read(t, "../../pg/schema.sql")), "copy pg/schema.sql to docs/sql.md")
	require.Contains(t, shown, strings.TrimSpace(read(t, "../../mysql/schema.sql")), "copy mysql/schema.sql to docs/sql.md")
}

// All functions that the page names exist, and so do the files it links to.
func TestThePageNamesWhatExists(t *testing.T) {
	text := read(t, page)
	for backend, names := range map[string]*regexp.Regexp{
		"pg":    regexp.MustCompile("`pg\\.([A-Z]\\w*)"),
		"mysql": regexp.MustCompile("`mysql\\.([A-Z]\\w*)"),
	} {
		files, err := filepath.Glob("../../" + backend + "/*.go")
		require.NoError(t, err)
		var code strings.Builder
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				code.WriteString(read(t, file))
			}
		}
		found := names.FindAllStringSubmatch(text, -1)
		require.NotEmpty(t, found)
		for _, m := range found {
			require.Regexp(t, `(?m)^(func|type|var) `+m[1]+`\b`, code.String(), "%s.%s", backend, m[1])
		}
	}
	for _, m := range regexp.MustCompile(`\]\((\.\./[^)#]+)`).FindAllStringSubmatch(text, -1) {
		require.FileExists(t, filepath.Join(filepath.Dir(page), m[1]))
	}
}
