package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// run is one scenario with one kind of fence: the instances, the buyers and the
// faults.
type run struct {
	settings
	scenario scenario
	fence    fenceKind

	servers *servers
	sale    sale
	shops   []*instance
	buyers  *buyers
	inside  chan *instance // a holder is inside its critical section now
}

// do runs the sale and returns what came of it. It calls started when all
// instances are up; the buyers come when that returns.
func (r *run) do(ctx context.Context, started func(*buyers)) (_ row, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s, fence %s: %w", r.scenario.name, r.fence, err)
		}
	}()
	db, err := openDatabase(r.servers.database)
	if err != nil {
		return row{}, err
	}
	defer db.Close()
	r.sale = sale{db: db, name: r.scenario.name + "/" + string(r.fence)}
	if err := r.sale.open(ctx); err != nil {
		return row{}, err
	}
	defer func() { err = errors.Join(err, r.closeShops()) }()
	if err := r.openShops(); err != nil {
		return row{}, err
	}
	r.buyers = newBuyers(r.shops)
	defer r.buyers.client.CloseIdleConnections()
	started(r.buyers)

	start := time.Now()
	if err := r.sell(ctx); err != nil {
		return row{}, err
	}
	return r.result(ctx, time.Since(start))
}

func (r *run) openShops() error {
	r.inside = make(chan *instance)
	for range r.Instances {
		shop, err := startInstance(shopConfig{
			Sale:     r.sale.name,
			Fence:    r.fence,
			Coupons:  r.coupons(r.scenario),
			TTL:      r.TTL,
			Wait:     r.Wait,
			Work:     r.work(r.scenario),
			Redis:    r.servers.redis,
			Database: r.servers.database,
			Keepers:  r.Keepers,
		}, r.inside)
		if err != nil {
			return err
		}
		r.shops = append(r.shops, shop)
	}
	return nil
}

func (r *run) closeShops() (err error) {
	for _, shop := range r.shops {
		err = errors.Join(err, shop.Stop())
	}
	return err
}

// sell sends the buyers and, meanwhile, the faults. It returns when the last
// buyer has an answer and the last fault is over.
func (r *run) sell(ctx context.Context) error {
	length := r.length(r.scenario)
	open, closing := context.WithTimeout(ctx, length)
	defer closing()
	faults := make(chan error, 1)
	go func() { faults <- r.strike(open, length) }()
	if r.scenario.rate > 0 {
		r.buyers.rush(ctx, int(float64(r.scenario.rate)*length.Seconds()), length)
	} else {
		r.buyers.crowd(open, r.Users)
	}
	return errors.Join(<-faults, ctx.Err())
}

// strike lets the scenario's fault happen eight times or less in the course of the
// sale, each time while a holder is inside.
func (r *run) strike(ctx context.Context, length time.Duration) error {
	if r.scenario.fault == nil {
		return nil
	}
	interval := time.NewTicker(length / 8)
	defer interval.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case holder := <-r.inside:
			if err := r.scenario.fault(ctx, r, holder); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-interval.C:
		}
	}
}

// result counts.
func (r *run) result(ctx context.Context, took time.Duration) (row, error) {
	owners, err := r.sale.owners(ctx)
	if err != nil {
		return row{}, err
	}
	issued, err := r.sale.issued(ctx)
	if err != nil {
		return row{}, err
	}
	var micros []int64
	for _, shop := range r.shops {
		m, err := shop.tokenTimes(r.buyers.client)
		if err != nil {
			return row{}, err
		}
		micros = append(micros, m...)
	}
	out := r.buyers.counts()
	out.Scenario, out.Fence = r.scenario.name, r.fence
	out.Rows = len(owners)
	out.Remaining = r.coupons(r.scenario) - issued
	for request := range r.buyers.sold {
		if _, owns := owners[request]; !owns {
			out.Phantom++
		}
	}
	out.LocksPerS = float64(out.OK+out.SoldOut+out.Refused) / took.Seconds()
	out.P95TokenUS = percentile(micros, 0.95)
	return out, nil
}

// percentile returns the p-quantile, 0 of nothing.
func percentile(values []int64, p float64) int64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(len(values)-1, int(p*float64(len(values))))]
}
