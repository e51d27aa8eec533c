package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
)

var errSoldOut = errors.New("sold out")

// shop sells the coupons of one sale. Several instances of it run as processes
// of their own and share nothing but the lock and the database.
type shop struct {
	locker  fencelock.Locker
	sale    sale
	coupons int
	wait    time.Duration // for the lock
	work    time.Duration // what the shop does between its read and its write
}

// sell issues the next coupon to a request and returns its number. It is the
// critical section of the experiment: read the number issued, work, write the
// number back. Two requests that are in it at once issue the same number.
//
// The ctx that ends when the lock is lost is ignored on purpose, as the
// published code did, so that nothing but the fence can save the sale.
func (s *shop) sell(ctx context.Context, request string) (number int, err error) {
	err = fencelock.WithLock(ctx, s.locker, s.sale.name, func(_ context.Context, token fencelock.Token) error {
		if err := s.sale.claim(ctx, token); err != nil {
			return err
		}
		issued, err := s.sale.issued(ctx)
		if err != nil {
			return err
		}
		if issued >= s.coupons {
			return errSoldOut
		}
		s.doWork()
		if err := s.sale.issue(ctx, token, issued+1, request); err != nil {
			return err
		}
		number = issued + 1
		return nil
	}, fencelock.Wait(s.wait))
	return number, err
}

// doWork is the workload. It tells the parent process that a holder is inside,
// after its read and before its write, which is when the faults strike.
func (s *shop) doWork() {
	if s.work == 0 {
		return
	}
	fmt.Println(working)
	time.Sleep(s.work)
}
