package pg_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/pg"
)

func ExampleNewLease() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/app?connect_timeout=5")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if err := pg.Migrate(ctx, pool); err != nil {
		log.Fatal(err)
	}
	locker, err := pg.NewLease(pool, fencelock.TTL(10*time.Second))
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

// A worker that takes whichever job is free.
func ExampleLocker_TryAny() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/app")
	if err != nil {
		log.Fatal(err)
	}
	locker, err := pg.NewLease(pool)
	if err != nil {
		log.Fatal(err)
	}
	lock, err := locker.TryAny(ctx, "job/1", "job/2", "job/3")
	if errors.Is(err, fencelock.ErrHeld) {
		fmt.Println("all of them are being worked on")
		return
	} else if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)
	fmt.Println("working on", lock.Name())
}

// The holder claims, reads and writes in one transaction, which counts only if
// no later holder has claimed meanwhile.
func ExampleNewFence() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/app")
	if err != nil {
		log.Fatal(err)
	}
	locker, err := pg.NewLease(pool)
	if err != nil {
		log.Fatal(err)
	}
	const name = "account/7"
	err = fencelock.WithLock(ctx, locker, name, func(ctx context.Context, token fencelock.Token) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			fence, err := pg.NewFence(tx)
			if err != nil {
				return err
			}
			if err := fence.Admit(ctx, name, token); err != nil {
				return err
			}
			_, err = tx.Exec(ctx, "UPDATE accounts SET balance = balance + 10 WHERE id = 7")
			return err
		})
	})
	if errors.Is(err, fencelock.ErrStale) {
		fmt.Println("overtaken by a later holder; nothing was written")
	}
}

// The row itself is the fence: one UPDATE checks and writes.
func ExampleStaleOrMissing() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/app")
	if err != nil {
		log.Fatal(err)
	}
	var token fencelock.Token = 1764547200000000 // of the lock
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "UPDATE accounts SET balance = 10, fence_token = $1 WHERE id = $2 AND fence_token <= $1", int64(token), 7)
		if err != nil || tag.RowsAffected() == 1 {
			return err
		}
		return pg.StaleOrMissing(ctx, tx, "account/7", token, "SELECT fence_token FROM accounts WHERE id = $1", 7)
	})
	switch {
	case errors.Is(err, fencelock.ErrStale):
		fmt.Println("overtaken by a later holder")
	case errors.Is(err, pg.ErrNoRow):
		fmt.Println("there is no such account")
	}
}

// Lock and data in one transaction: no lease, no fence.
func ExampleTxLock() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/app")
	if err != nil {
		log.Fatal(err)
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := pg.TxLock(ctx, tx, "stock"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE stock SET left = left - 1")
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleNewTokens() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/app")
	if err != nil {
		log.Fatal(err)
	}
	tokens, err := pg.NewTokens(pool)
	if err != nil {
		log.Fatal(err)
	}
	token, err := tokens.Next(ctx, "invoices")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(token)
}

func ExampleNewOptimisticTokens() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/app")
	if err != nil {
		log.Fatal(err)
	}
	tokens, err := pg.NewOptimisticTokens(pool, fencelock.Prefix("billing/"))
	if err != nil {
		log.Fatal(err)
	}
	token, err := tokens.Next(ctx, "invoices")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(token)
}

// The tables may stand in a schema of their own, and have other names; all that uses
// them says so.
func ExampleSchema() {
	where := []fencelock.Option{pg.Schema("locking"), pg.TablePrefix("app_")}
	ddl, err := pg.DDL(where...)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Contains(ddl, `CREATE TABLE IF NOT EXISTS "locking"."app_locks"`))
	// Output: true
}
