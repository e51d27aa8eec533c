package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/mysql"
)

// pool is your *sql.DB.
func pool() *sql.DB {
	db, err := sql.Open("mysql", "app:secret@tcp(localhost:3306)/app")
	if err != nil {
		log.Fatal(err)
	}
	return db
}

func ExampleNewLease() {
	ctx, db := context.Background(), pool()
	defer db.Close()
	if err := mysql.Migrate(ctx, db); err != nil {
		log.Fatal(err)
	}
	locker, err := mysql.NewLease(db, fencelock.TTL(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(ctx)

	err = fencelock.WithLock(ctx, locker, "invoices/2026-11",
		func(ctx context.Context, token fencelock.Token) error {
			fmt.Println("working with token", token)
			return nil
		}, fencelock.Wait(5*time.Second))
	if errors.Is(err, fencelock.ErrHeld) {
		fmt.Println("somebody else is at it")
	}
}

// Those who wait queue at the server, and a dead holder's lock is free as soon as
// its connection has ended. Each hold and each waiter takes a connection of db.
func ExampleNewAdvisory() {
	db := pool()
	db.SetMaxOpenConns(20)
	locker, err := mysql.NewAdvisory(db, fencelock.TTL(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	lock, err := locker.Acquire(context.Background(), "nightly")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(context.Background())
}

// A lock that TxLock respects.
func ExampleNewRow() {
	locker, err := mysql.NewRow(pool(), fencelock.TTL(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	lock, err := locker.TryAcquire(context.Background(), "account/7")
	if errors.Is(err, fencelock.ErrHeld) {
		fmt.Println("somebody else is at it")
		return
	} else if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(context.Background())
}

// Lock and data in one transaction: no lease, no fence.
func ExampleTxLock() {
	ctx := context.Background()
	tx, err := pool().BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := mysql.TxLock(ctx, tx, "account/7"); err != nil {
		log.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance + 10 WHERE id = 7"); err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
}

// The holder claims, reads and writes in one transaction, which counts only if
// no later holder has claimed meanwhile.
func ExampleNewFence() {
	ctx := context.Background()
	var token fencelock.Token = 1764547200000000 // of the lock
	tx, err := pool().BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	fence, err := mysql.NewFence(tx)
	if err != nil {
		log.Fatal(err)
	}
	err = fence.Admit(ctx, "account/7", token)
	if errors.Is(err, fencelock.ErrStale) {
		fmt.Println("overtaken by a later holder")
		return
	} else if err != nil {
		log.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance + 10 WHERE id = 7"); err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
}

func ExampleNewTokens() {
	tokens, err := mysql.NewTokens(pool())
	if err != nil {
		log.Fatal(err)
	}
	token, err := tokens.Next(context.Background(), "invoices")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(token)
}

// The tables may have other names, in another database; all that uses them says so.
func ExampleTablePrefix() {
	ddl, err := mysql.DDL(mysql.TablePrefix("locking.app_"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Contains(ddl, "CREATE TABLE IF NOT EXISTS `locking`.`app_locks`"))
	// Output: true
}
