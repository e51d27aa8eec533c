package testserver

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// PGPair is a PostgreSQL primary and its streaming standby.
type PGPair struct {
	Primary, Standby *Postgres
	Link             *Proxy // the standby's connection to its primary goes through here
}

// PostgresPair starts a primary and a standby that follows it. Settings are given to both. The primary does not wait for
// the standby, unless told so by "synchronous_standby_names=*" (which it must be told again not to after Promote).
func PostgresPair(tb testing.TB, settings ...string) *PGPair {
	tb.Helper()
	settings = slices.Concat([]string{
		"wal_keep_size=256MB",             // for a standby that was cut off
		"wal_retrieve_retry_interval=100", // milliseconds until it tries again
	}, settings)
	p := &PGPair{Primary: StartPostgres(tb, settings...)}
	p.Link = NewProxy(tb, p.Primary.Addr())
	_, port := hostPort(p.Link.Addr())
	// Both begin with copies of the same data, so no backup need be taken: the standby has only to read on from there.
	p.Standby = startOwnPostgres(tb, func(as *account, data string) error {
		signal := filepath.Join(data, "standby.signal")
		if err := os.WriteFile(signal, nil, 0o600); err != nil {
			return err
		}
		return as.own(signal)
	}, slices.Concat(settings, []string{"primary_conninfo=host=127.0.0.1 port=" + port + " user=postgres sslmode=disable"}))
	p.WaitSynced()
	return p
}

// WaitSynced waits until the standby shows everything that the primary has written.
func (p *PGPair) WaitSynced() {
	p.Primary.tb.Helper()
	lsn := p.Primary.Strings("SELECT pg_current_wal_flush_lsn()")[0]
	if !poll(startTime, func() bool {
		replayed, err := p.Standby.Try("SELECT coalesce(pg_last_wal_replay_lsn() >= $1::text::pg_lsn, false) AND EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming')", lsn)
		return err == nil && replayed[0] == "t"
	}) {
		p.Primary.tb.Fatalf("testserver: the standby does not follow:\n%s", p.Standby.Log())
	}
}

// Promote makes the standby a primary with the data it has. The old primary is not told.
func (p *PGPair) Promote() {
	p.Standby.tb.Helper()
	p.Standby.Exec("SELECT pg_promote()")
	if still := p.Standby.Strings("SELECT pg_is_in_recovery()"); still[0] != "f" {
		p.Standby.tb.Fatalf("testserver: the standby is not promoted:\n%s", p.Standby.Log())
	}
}
