package pg

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
	"github.com/fencelock/fencelock/internal/option"
	"github.com/fencelock/fencelock/internal/sqlkit"
)

// NewLease returns a Locker whose locks are rows with an expiry. An acquire is
// one statement and one commit through the pool, and so is a release; a holder
// keeps no connection. It works behind poolers such as PgBouncer in transaction
// mode, where it polls, and where a process that has released a lock for which
// others wait is refused for the next 20 ms, so that they get their turn.
//
// Elsewhere waiting processes are woken by NOTIFY, for which a Locker opens one
// connection of its own with its first waiter, outside the pool, and keeps it
// until it is idle. A release that nobody waits for sends none.
//
// It sends nothing yet: missing tables and a read-only server show with the first
// use. A pool with MaxConns 1 is refused.
func NewLease(pool *pgxpool.Pool, opts ...fencelock.Option) (*Locker, error) {
	return newLocker("NewLease", pool, opts, func(d *database, _ *option.Set) (style, error) {
		return newLeases(d), nil
	})
}

// leases is the driver. It implements lease.Waker and lease.Idler by its
// listener.
type leases struct {
	db *database
	*listener
}

func newLeases(d *database) *leases { return &leases{d, newListener(d)} }

// races is how often an attempt is made again after a refusal whose reason had
// gone when it was looked for.
const races = 10

// Try implements lease.Driver. The TTL counts from the sending of the statement,
// also if it then waits for the row (S5): at the server the lease ends later, and
// the engine renews at once what has become old.
func (l *leases) Try(ctx context.Context, r lease.Request) (lease.Grant, error) {
	if r.Min == math.MaxInt64 {
		return lease.Grant{}, sqlkit.Exhausted(r.Min)
	}
	if left := l.turns.others(r.Key); left > 0 {
		return lease.Grant{}, &fencelock.HeldError{For: left}
	}
	for range races {
		args := []any{keyArg(r.Key), r.Attempt, micros(r.TTL), int64(r.Min) + 1, max(1, r.Tokens()) - 1}
		g, err := l.grant(ctx, r, "take.sql", args)
		if !errors.Is(err, pgx.ErrNoRows) {
			return g, err
		}
		why, err := l.refused(ctx, r)
		switch {
		case err != nil:
			return lease.Grant{}, err
		case why.dead:
			return lease.Grant{}, &fencelock.LostError{Reason: fencelock.Deleted}
		case why.mine && why.left > 0: // a duplicate of it has been here; part of the TTL is gone
			return why.grant, nil
		case why.left > 0:
			return lease.Grant{}, &fencelock.HeldError{For: why.left}
		case int64(r.Min)-sqlkit.Day > max(why.counter, why.now):
			return lease.Grant{}, sqlkit.Ahead(r.Min, max(why.counter, why.now))
		case why.new:
			args[4] = sqlkit.Label(r.Key)
			g, err := l.grant(ctx, r, "create.sql", args)
			if !errors.Is(err, pgx.ErrNoRows) {
				return g, err
			}
		}
	}
	return lease.Grant{}, &fencelock.HeldError{} // by others, one after the other
}

// grant runs a statement that grants or returns no row.
func (l *leases) grant(ctx context.Context, r lease.Request, file string, args []any) (lease.Grant, error) {
	g := lease.Grant{TTL: fromMicros(micros(r.TTL))}
	sent, err := l.db.row(ctx, l.db.t.sql(file), args, &g.First, &g.Last)
	g.Since = sent
	if code(err) == outOfRange {
		err = sqlkit.Exhausted(r.Min)
	}
	return g, definite(err)
}

// refusal is what refused.sql says.
type refusal struct {
	now, counter int64
	mine         bool
	grant        lease.Grant // if it is mine
	left         time.Duration
	dead, new    bool
}

func (l *leases) refused(ctx context.Context, r lease.Request) (why refusal, err error) {
	var left int64
	g := lease.Grant{TTL: fromMicros(micros(r.TTL))}
	sent, err := l.db.row(ctx, l.db.t.sql("refused.sql"), []any{keyArg(r.Key), r.Attempt},
		&why.now, &why.counter, &why.mine, &g.First, &g.Last, &left, &why.dead, &why.new)
	why.left = fromMicros(left)
	g.Since = sent.Add(why.left - g.TTL)
	why.grant = g
	return why, definite(err)
}

// batch is how many renewals share a statement: what was confirmed before a time-out counts.
const batch = 500

// Renew implements lease.Driver.
func (l *leases) Renew(ctx context.Context, rs []lease.Request, gs []lease.Grant, errs []error) {
	for start := 0; start < len(rs); start += batch {
		end := min(start+batch, len(rs))
		err := l.renew(ctx, rs[start:end], gs[start:end], errs[start:end])
		for i := start; err != nil && i < end; i++ {
			errs[i] = err
		}
	}
}

var errBusy = errors.New("the row is locked by another transaction just now")

func (l *leases) renew(ctx context.Context, rs []lease.Request, gs []lease.Grant, errs []error) error {
	keys, attempts, ttls := make([][]byte, len(rs)), make([]string, len(rs)), make([]int64, len(rs))
	for i, r := range rs {
		keys[i], attempts[i], ttls[i] = keyArg(r.Key), r.Attempt, micros(r.TTL)
	}
	return l.db.with(ctx, func(c *pgx.Conn, mode []any) error {
		sent := time.Now()
		rows, err := c.Query(ctx, l.db.t.sql("renew.sql"), append(slices.Clone(mode), keys, attempts, ttls)...)
		if err != nil {
			return err
		}
		seen, err := pgx.CollectRows(rows, pgx.RowToStructByPos[renewal])
		if err == nil && len(seen) != len(rs) {
			err = fmt.Errorf("%d answers to %d renewals", len(seen), len(rs))
		}
		if err != nil {
			return err
		}
		for i, s := range seen {
			if errs[i] = s.err(); errs[i] == nil {
				gs[i].Since, gs[i].TTL = sent, fromMicros(ttls[i])
			}
		}
		return nil
	})
}

// renewal is what renew.sql says of one hold.
type renewal struct{ Done, Exists, Owned, Mine, Live bool }

func (r renewal) err() error {
	switch {
	case r.Done:
		return nil
	case !r.Exists, !r.Owned:
		return &fencelock.LostError{Reason: fencelock.Deleted}
	case !r.Mine:
		return &fencelock.LostError{Reason: fencelock.Taken}
	case !r.Live:
		return &fencelock.LostError{Reason: fencelock.Expired}
	}
	return errBusy
}

// Release implements lease.Driver.
func (l *leases) Release(ctx context.Context, r lease.Request, _ lease.Grant) error {
	released, err := l.release(ctx, r)
	if released || err != nil {
		return err
	}
	v, err := l.look(ctx, r.Key)
	switch {
	case err != nil:
		return err
	case v.released != nil && sameAttempt(*v.released, r.Attempt):
		return nil // an earlier release whose reply was lost
	case v.owner != nil && sameAttempt(*v.owner, r.Attempt):
		return errBusy // it cannot have come back; look again
	case v.owner != nil:
		return &fencelock.LostError{Reason: fencelock.Taken}
	}
	return &fencelock.LostError{Reason: fencelock.Deleted}
}

// release reports whether the attempt had the lock. Where nobody can be woken it
// also asks whether somebody waits.
func (l *leases) release(ctx context.Context, r lease.Request) (bool, error) {
	sql, args := l.db.t.sql("release.sql"), []any{keyArg(r.Key), r.Attempt}
	if l.db.path.Load() != pooler {
		n, err := l.db.exec(ctx, sql, args)
		return n > 0, err
	}
	var waiting bool
	_, err := l.db.row(ctx, sql+"RETURNING coalesce(waiting_until > clock_timestamp(), false)", args, &waiting)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if waiting {
		l.turns.leave(r.Key)
	}
	return err == nil, err
}

// sameAttempt compares an attempt with what the server makes of it, which is
// grouped by hyphens.
func sameAttempt(uuid, attempt string) bool {
	if len(uuid) != 36 {
		return false
	}
	return uuid[:8]+uuid[9:13]+uuid[14:18]+uuid[19:23]+uuid[24:] == attempt
}

// Undo implements lease.Driver. The tombstone that it leaves is what an attempt
// finds that is still on its way or waits for the row.
func (l *leases) Undo(ctx context.Context, r lease.Request) error {
	var told *bool
	_, err := l.db.row(ctx, l.db.t.sql("undo.sql"), []any{keyArg(r.Key), sqlkit.Label(r.Key), r.Attempt}, &told)
	return err
}

func (l *leases) look(ctx context.Context, key string) (v view, err error) {
	err = l.db.with(ctx, func(c *pgx.Conn, mode []any) error {
		v, err = lookAt(ctx, c, l.db.t, key, mode...)
		return err
	})
	return v, err
}

// free implements style.
func (l *leases) free(ctx context.Context, keys []string) (int, error) {
	ids := make([][]byte, len(keys))
	for i, key := range keys {
		ids[i] = keyArg(key)
	}
	var place int
	_, err := l.db.row(ctx, l.db.t.sql("free.sql"), []any{ids}, &place)
	return place - 1, err
}

// keyArg is the key as an argument of a statement.
func keyArg(key string) []byte {
	id := sqlkit.KeyOf(key)
	return id[:]
}

func micros(d time.Duration) int64 { return d.Microseconds() }

func fromMicros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
