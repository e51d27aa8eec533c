package mysql

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strconv"
	"strings"

	"github.com/fencelock/fencelock/internal/lease"
)

// Numbers of the errors of MySQL and MariaDB.
const (
	errAccessTable   = 1142
	errNoTable       = 1146
	errNoDatabase    = 1049
	errNoColumn      = 1054
	errNoThread      = 1094
	errAtCommit      = 1180
	errLockWait      = 1205 // also NOWAIT of MariaDB
	errDeadlock      = 1213
	errReadOnly      = 1290
	errInterrupted   = 1317
	errChanged       = 1020
	errReadOnlyTx    = 1792
	errReadOnlyMode  = 1836
	errTimeout       = 1969 // max_statement_time of MariaDB
	errTimeoutSelect = 3024 // max_execution_time of MySQL
	errNoWait        = 3572 // NOWAIT of MySQL
)

// number returns the number that the server gave an error, 0 if err is not the
// server's. Drivers are recognised by what their errors look like, so that none
// need be imported: a struct with a Number, as go-sql-driver's, or the text.
func number(err error) int {
	for err != nil {
		v := reflect.Indirect(reflect.ValueOf(err))
		if v.Kind() == reflect.Struct {
			if f := v.FieldByName("Number"); f.IsValid() && f.CanUint() {
				return int(f.Uint())
			} else if f.IsValid() && f.CanInt() {
				return int(f.Int())
			}
		}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				if n := number(e); n != 0 {
					return n
				}
			}
			return 0
		}
		next := errors.Unwrap(err)
		if next == nil {
			break
		}
		err = next
	}
	if err == nil {
		return 0
	}
	text, ok := strings.CutPrefix(strings.ToLower(err.Error()), "error ")
	if !ok {
		return 0
	}
	digits := strings.IndexFunc(text+" ", func(r rune) bool { return r < '0' || r > '9' })
	n, _ := strconv.Atoi(text[:digits])
	return n
}

// again reports whether the server asks for another try: the statement, or the
// whole transaction, has had no effect.
func again(err error) bool {
	switch number(err) {
	case errLockWait, errDeadlock, errChanged:
		return true
	}
	return false
}

// interrupted reports whether somebody ended the statement, and not the session.
func interrupted(err error) bool {
	switch number(err) {
	case errInterrupted, errTimeout, errTimeoutSelect:
		return true
	}
	return false
}

// explain adds to an error what to do about it.
func explain(err error) error {
	switch number(err) {
	case errNoTable, errNoColumn, errNoDatabase:
		return fmt.Errorf("the tables are missing or of another release: call mysql.Migrate or run mysql/schema.sql, and check mysql.TablePrefix: %w", err)
	case errReadOnly, errReadOnlyTx, errReadOnlyMode:
		return fmt.Errorf("the server or the transaction is read-only: locks need the primary: %w", err)
	}
	return err
}

// definite marks the error of a statement that committed by itself: what the
// server refused has had no effect, nor has what found no server.
func definite(ctx context.Context, err error) error {
	n := number(err)
	if n != 0 && n != errAtCommit && ctx.Err() == nil || unsent(err) {
		return lease.Definite(err)
	}
	return err
}

// unsent reports whether there was no connection to send a statement on.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
