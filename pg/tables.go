package pg

import (
	"embed"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/option"
)

// The statements, with the default names of the tables.
//
//go:embed *.sql
var files embed.FS

const (
	defPrefix = "fencelock_"
	maxIdent  = 63 // what is longer would be cut by the server
)

type (
	schemaKey struct{}
	prefixKey struct{}
)

var ownKeys = []any{schemaKey{}, prefixKey{}}

// Schema is the schema of the tables; the default is the first on the
// connection's search_path that has them. It must exist.
func Schema(name string) fencelock.Option {
	return func(s *option.Set) { s.Put(schemaKey{}, name) }
}

// TablePrefix begins the names of the tables; the default is "fencelock_".
func TablePrefix(p string) fencelock.Option {
	return func(s *option.Set) { s.Put(prefixKey{}, p) }
}

// tables knows the names of the tables as SQL spells them. It is not changed once
// made.
type tables struct {
	locks, rows, fences string
	statements          map[string]string // by file
}

// known keeps the tables that were used, by the names they are for: a fence is
// made for each transaction.
var known sync.Map

func tablesOf(set option.Set) (*tables, error) {
	id := [2]any{set.Own(schemaKey{}), set.Own(prefixKey{})}
	if t, ok := known.Load(id); ok {
		return t.(*tables), nil
	}
	t, err := newTables(set)
	if err == nil {
		known.Store(id, t)
	}
	return t, err
}

func newTables(set option.Set) (*tables, error) {
	prefix, given := set.Own(prefixKey{}).(string)
	if !given {
		prefix = defPrefix
	}
	if err := checkIdent(prefix + "fences"); err != nil {
		return nil, fmt.Errorf("option TablePrefix(%q): %w", prefix, err)
	}
	schema, qualified := set.Own(schemaKey{}).(string)
	if qualified {
		if err := checkIdent(schema); err != nil {
			return nil, fmt.Errorf("option Schema(%q): %w", schema, err)
		}
	}
	quote := func(table string) string {
		id := pgx.Identifier{prefix + table}
		if qualified {
			id = pgx.Identifier{schema, prefix + table}
		}
		return id.Sanitize()
	}
	t := &tables{locks: quote("locks"), rows: quote("rows"), fences: quote("fences"), statements: make(map[string]string)}
	names := strings.NewReplacer("fencelock_locks", t.locks, "fencelock_rows", t.rows, "fencelock_fences", t.fences)
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		text, err := files.ReadFile(e.Name())
		if err != nil {
			return nil, err
		}
		t.statements[e.Name()] = names.Replace(string(text))
	}
	return t, nil
}

func checkIdent(s string) error {
	switch {
	case s == "":
		return errors.New("it is empty")
	case len(s) > maxIdent:
		return fmt.Errorf("a name of more than %d bytes would be cut", maxIdent)
	case !utf8.ValidString(s) || strings.ContainsRune(s, 0):
		return errors.New("it is no text")
	}
	return nil
}

// sql returns the statement in an embedded file for these tables.
func (t *tables) sql(file string) string {
	text, ok := t.statements[file]
	if !ok {
		panic("fencelock: pg has no statement " + file)
	}
	return text
}
