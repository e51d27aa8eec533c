// Package fencelock is a library of distributed locks in which every hold
// carries a fencing token.
//
// A lock tells you that you may start; the fence decides whether your write
// still counts. Every lock that can expire has the same hole: its holder
// pauses (garbage collection, a stalled machine, a slow network) or a server's
// clock steps, the lock expires, somebody else gets it, and the first holder
// wakes up and writes. The cure is a number that grows with every hold, checked
// by the store at each write:
//
//	err := fencelock.WithLock(ctx, locker, "invoices/2026-11",
//		func(ctx context.Context, token fencelock.Token) error {
//			return store.Save(ctx, invoice, token) // refused if a later holder has been here
//		}, fencelock.TTL(10*time.Second))
//
// # Promises
//
// Exclusion. While no clock jumps, no process pauses beyond its TTL and no
// acknowledged write is lost by the servers, at most one [Lock] per name is
// held among all Lockers on one backend with one prefix. No lock that can
// expire promises more.
//
// Fence. Whatever clocks and pauses do, of two grants of one name by the
// backend all tokens of the later are greater than all tokens of the earlier.
// Tokens are positive. (Goroutines of one process may pass a hold among
// themselves, each with its own token, see [Passes]. A pass inside a hold that
// the server has already ended carries the lower token, so the fence refuses
// it.) What a backend needs for this and what survives the loss of it is one
// table in the README.
//
// Loss is never silent and never late. A holder is told, by [Lock.Lost] and by
// the end of the ctx that WithLock gives its function, before the backend can
// let the lock expire. The deadline is the monotonic time at which the last
// confirmed request that the server counts the TTL from was sent, plus the
// TTL, minus 1 % of the TTL and 2 ms. A timer fires it; a hanging renewal
// cannot delay it. A loss that has no expiry (a record deleted by hand, a
// session killed at the server) is told within a second, or at the next
// renewal, a third of the TTL, where the backend cannot push. A process that
// was stopped is told when it wakes.
//
// Nothing is left behind. A cancelled, timed-out, refused or failed acquire
// leaves no key, row, node, lease, waiter, goroutine or pooled connection. When
// the server cannot be reached, clean-up keeps trying until the TTL ends.
//
// The ctx is obeyed on time. It bounds the wait, not the hold. Acquire returns
// within 100 ms of its end even when the server hangs; clean-up goes on in the
// background, bounded.
//
// Only our own lock is released. Release compares the owner at the server,
// atomically with the deletion.
//
// No client clock reaches a server as a time. TTLs are relative; the server
// judges expiry.
//
// An idle Locker costs nothing. With no hold and no waiter, its subscription,
// lease, session and lock connections are gone within one TTL; the next Acquire
// starts them again. Forgetting Close leaks nothing.
//
// # Backends
//
// Each backend is a package of its own that takes the client you already have:
// redis (one server, Sentinel or Cluster), redlock (a quorum of independent
// Redis servers), pg (PostgreSQL), mysql (MySQL and MariaDB), etcd, zk
// (ZooKeeper), and mem (in this process, for tests). Import only the one you use.
//
// The pages in docs help to choose (docs/choosing.md), to fence
// (docs/fencing.md), to come from another library (docs/migrating.md) and to test
// (docs/testing.md). The command fencelock runs programs under a lock.
package fencelock
