package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/pg"
)

// bank is one worker's way to the accounts.
type bank struct {
	pool   *pgxpool.Pool
	locker fencelock.Locker // of the arms with a lease
	work   time.Duration    // what a transfer takes between its reads and its writes
}

// transfer moves an amount between two accounts. Account names are in order, so
// that two transfers between the same accounts cannot wait for each other; a
// negative amount goes the other way.
type transfer struct {
	accounts [2]string
	amount   int64
}

// unlocked is what people write first: both reads and both writes are in one
// transaction, which READ COMMITTED does not make a critical section.
func (b *bank) unlocked(ctx context.Context, t transfer) error {
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		balances, err := read(ctx, tx, t)
		if err != nil {
			return err
		}
		b.think()
		return write(ctx, tx, t, balances, [2]any{nil, nil})
	})
}

// txLocked locks both accounts in the transaction that reads and writes them. The
// locks end with it, whichever way that is, so nothing can be written without
// them, and no fence is needed. The tokens number what happened to an account.
func (b *bank) txLocked(ctx context.Context, t transfer) error {
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		var tokens [2]any
		for i, account := range t.accounts {
			token, err := pg.TxLock(ctx, tx, account)
			if err != nil {
				return err
			}
			tokens[i] = int64(token)
		}
		balances, err := read(ctx, tx, t)
		if err != nil {
			return err
		}
		b.think()
		return write(ctx, tx, t, balances, tokens)
	})
}

// leased keeps no transaction open while it thinks: one reads, another writes.
// So it takes a lock that outlives a transaction, which may be lost without the
// database knowing; with fenced, the fence makes sure that what was read is still
// true when it writes.
//
// The ctx that ends when a lock is lost is ignored on purpose, so that nothing
// but the fence can save the balance.
func (b *bank) leased(ctx context.Context, t transfer, fenced bool) error {
	written := false
	err := fencelock.WithLock(ctx, b.locker, t.accounts[0], func(_ context.Context, first fencelock.Token) error {
		return fencelock.WithLock(ctx, b.locker, t.accounts[1], func(_ context.Context, second fencelock.Token) error {
			tokens := [2]fencelock.Token{first, second}
			var balances [2]int64
			err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) (err error) {
				// Claimed before the first read: else the old holder could still
				// write between that read and our write.
				if fenced {
					err = admit(ctx, tx, t, tokens, false)
				}
				if err == nil {
					balances, err = read(ctx, tx, t)
				}
				return err
			})
			if err != nil {
				return err
			}
			b.think()
			err = pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) (err error) {
				if fenced {
					err = admit(ctx, tx, t, tokens, true)
				}
				if err == nil {
					err = write(ctx, tx, t, balances, [2]any{int64(first), int64(second)})
				}
				return err
			})
			written = err == nil
			return err
		})
	})
	if written && errors.Is(err, fencelock.ErrLost) {
		return nil // lost, but nobody was told yet that it is theirs: the transfer counts
	}
	return err
}

// admit asks the fence about both accounts, in the transaction that reads or
// writes them. A strict fence admits one write for each token.
func admit(ctx context.Context, tx pgx.Tx, t transfer, tokens [2]fencelock.Token, strict bool) error {
	fence, err := pg.NewFence(tx)
	if err != nil {
		return err
	}
	if strict {
		fence = fence.Strict()
	}
	for i, account := range t.accounts {
		if err := fence.Admit(ctx, account, tokens[i]); err != nil {
			return err
		}
	}
	return nil
}

func read(ctx context.Context, tx pgx.Tx, t transfer) (balances [2]int64, err error) {
	for i, account := range t.accounts {
		err := tx.QueryRow(ctx, `SELECT balance FROM accounts WHERE name = $1`, account).Scan(&balances[i])
		if err != nil {
			return balances, err
		}
	}
	return balances, nil
}

// write writes new balances, computed from those that were read, and a line of
// the ledger for each account.
func write(ctx context.Context, tx pgx.Tx, t transfer, balances [2]int64, tokens [2]any) error {
	for i, amount := range []int64{-t.amount, t.amount} {
		account, balance := t.accounts[i], balances[i]+amount
		if _, err := tx.Exec(ctx, `UPDATE accounts SET balance = $2 WHERE name = $1`, account, balance); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO ledger (account, amount, balance, token) VALUES ($1, $2, $3, $4)`,
			account, amount, balance, tokens[i])
		if err != nil {
			return err
		}
	}
	return nil
}

// think is what the program does between its reads and its writes. It tells the
// parent process, who may stop us just here.
func (b *bank) think() {
	fmt.Println(inside)
	time.Sleep(b.work)
}
