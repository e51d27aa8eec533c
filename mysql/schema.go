package mysql

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/option"
	"github.com/fencelock/fencelock/internal/sqlkit"
)

//go:embed schema.sql
var schema string

type prefixKey struct{}

// TablePrefix is put before the names of the tables; the default is
// "fencelock_". It may name a database: "locks.fencelock_". It is an option of
// everything in this package that uses the tables, and must be the same
// everywhere.
func TablePrefix(p string) fencelock.Option {
	return func(s *option.Set) { s.Put(prefixKey{}, p) }
}

// tables are the quoted names of the tables.
type tables struct{ locks, rows, fences string }

const (
	defTables = "fencelock_"
	maxTable  = 64 - len("fences")
)

func tablesOf(set option.Set) (tables, error) {
	p, given := set.Own(prefixKey{}).(string)
	if !given {
		p = defTables
	}
	database, prefix := "", p
	if i := strings.LastIndexByte(p, '.'); i >= 0 {
		database, prefix = p[:i], p[i+1:]
		if database == "" {
			return tables{}, fmt.Errorf("option TablePrefix(%q): the database before the dot is empty", p)
		}
	}
	if len(prefix) > maxTable || len(database) > 64 || strings.ContainsRune(p, 0) {
		return tables{}, fmt.Errorf("option TablePrefix(%q): not a name of a table: at most %d characters, without NUL", p, maxTable)
	}
	name := func(table string) string {
		q := quoteName(prefix + table)
		if database != "" {
			q = quoteName(database) + "." + q
		}
		return q
	}
	return tables{name("locks"), name("rows"), name("fences")}, nil
}

func quoteName(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }

// ddl is schema.sql with the names of the tables.
func (t tables) ddl() string {
	return strings.NewReplacer("`fencelock_locks`", t.locks, "`fencelock_rows`", t.rows, "`fencelock_fences`", t.fences).Replace(schema)
}

// DDL returns the statements that create the tables if they are not there, as
// mysql/schema.sql has them for the default names. The only option with a
// meaning here is TablePrefix.
func DDL(opts ...fencelock.Option) (string, error) {
	t, _, err := only("DDL", opts, 0)
	if err != nil {
		return "", err
	}
	return t.ddl(), nil
}

// Migrate creates the tables if they are not there. It may run at every start,
// and at the same time in many processes. Those who run their own migrations use
// mysql/schema.sql, or DDL. The only option with a meaning here is TablePrefix.
func Migrate(ctx context.Context, db *sql.DB, opts ...fencelock.Option) error {
	t, _, err := only("Migrate", opts, 0)
	if err != nil {
		return err
	}
	if err := checkPool(db); err != nil {
		return fmt.Errorf("fencelock: mysql.Migrate: %w", err)
	}
	for statement := range strings.SplitSeq(t.ddl(), ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := (pool{db}).exec(ctx, statement); err != nil {
			return fmt.Errorf("fencelock: mysql.Migrate: %w", err)
		}
	}
	return nil
}

// only reads the options of what is no Locker.
func only(what string, opts []fencelock.Option, fields option.Field) (tables, option.Set, error) {
	set, err := sqlkit.Only("mysql", what, opts, fields, prefixKey{})
	if err != nil {
		return tables{}, set, err
	}
	t, err := tablesOf(set)
	if err != nil {
		return tables{}, set, fmt.Errorf("fencelock: mysql.%s: %w", what, err)
	}
	return t, set, nil
}

// checkPool refuses a pool that cannot be used, before it panics.
func checkPool(db *sql.DB) (err error) {
	advice := errors.New("the pool is nil or zero: open one with sql.Open")
	if db == nil {
		return advice
	}
	defer func() {
		if recover() != nil {
			err = advice
		}
	}()
	db.Driver()
	return nil
}
