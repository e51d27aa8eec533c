package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/fencelock/fencelock"
)

// sale is one sale in the shop's database. The same SQL runs on PostgreSQL and
// SQLite.
type sale struct {
	db     *sql.DB
	name   string
	fenced bool
}

const (
	// $1 name, $2 token
	claimSale = `UPDATE fencelock_sales SET fence = $2 WHERE name = $1 AND `
	// $1 name
	readIssued = `SELECT issued FROM fencelock_sales WHERE name = $1`
	// $1 name, $2 number
	writeIssued = `UPDATE fencelock_sales SET issued = $2 WHERE name = $1`
	// $1 name, $2 token, $3 number
	writeIssuedFenced = `UPDATE fencelock_sales SET issued = $3 WHERE name = $1 AND `
	// $1 sale, $2 number, $3 request
	writeCoupon = `INSERT INTO fencelock_coupons (sale, number, request) VALUES ($1, $2, $3)
		ON CONFLICT (sale, number) DO UPDATE SET request = excluded.request`
)

// claim makes the fence refuse all tokens below this one from now on. It is a
// transaction of its own and comes before the first read: else the old holder
// could still write between that read and our write.
func (s *sale) claim(ctx context.Context, token fencelock.Token) error {
	if !s.fenced {
		return nil
	}
	return s.admitted(token)(s.db.ExecContext(ctx, claimSale+admits, s.name, int64(token)))
}

// issued returns the number of coupons issued so far.
func (s *sale) issued(ctx context.Context) (n int, err error) {
	err = s.db.QueryRowContext(ctx, readIssued, s.name).Scan(&n)
	return n, err
}

// issue writes the number of coupons issued and who owns the last of them. The
// fence's check and the writes take effect together or not at all.
func (s *sale) issue(ctx context.Context, token fencelock.Token, number int, request string) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if s.fenced {
		err = s.admitted(token)(tx.ExecContext(ctx, writeIssuedFenced+admits, s.name, int64(token), number))
	} else {
		_, err = tx.ExecContext(ctx, writeIssued, s.name, number)
	}
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, writeCoupon, s.name, number, request); err != nil {
		return err
	}
	return tx.Commit()
}

// admitted turns an update that found no row it was allowed to write into a
// *fencelock.StaleError.
func (s *sale) admitted(token fencelock.Token) func(sql.Result, error) error {
	return func(r sql.Result, err error) error {
		if err != nil {
			return err
		}
		n, err := r.RowsAffected()
		if err == nil && n == 0 {
			err = &fencelock.StaleError{Name: s.name, Have: token, Want: token + 1}
		}
		return err
	}
}

// open starts the sale anew with nothing issued.
func (s *sale) open(ctx context.Context) error {
	for _, statement := range []string{
		`DELETE FROM fencelock_coupons WHERE sale = $1`,
		`DELETE FROM fencelock_sales WHERE name = $1`,
		`INSERT INTO fencelock_sales (name) VALUES ($1)`,
	} {
		if _, err := s.db.ExecContext(ctx, statement, s.name); err != nil {
			return err
		}
	}
	return nil
}

// owners returns the requests that own a coupon, by the coupon's number.
func (s *sale) owners(ctx context.Context) (owners map[string]int, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT number, request FROM fencelock_coupons WHERE sale = $1`, s.name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	owners = make(map[string]int)
	for rows.Next() {
		var number int
		var request string
		if err := rows.Scan(&number, &request); err != nil {
			return nil, err
		}
		owners[request] = number
	}
	return owners, rows.Err()
}
