package main

import (
	"database/sql"
	"fmt"
	"time"

	gozk "github.com/go-zookeeper/zk"
	goredis "github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/redis"
	"github.com/fencelock/fencelock/redlock"
	"github.com/fencelock/fencelock/zk"
)

// fenceKind says whether the shop's writes are fenced, and by whose tokens.
type fenceKind string

const (
	fenceNone   fenceKind = "none"   // the published shop: a lock and nothing else
	fenceQuorum fenceKind = "quorum" // redlock's own tokens, which come with the lock
	fenceRedis  fenceKind = "redis"  // a counter on one of the Redis nodes
	fenceRow    fenceKind = "db"     // a row of the shop's database
	fenceZK     fenceKind = "zk"     // ZooKeeper's count of its changes
)

// fences are those that every shop can have; fenceZK needs a server of its own.
var fences = []fenceKind{fenceNone, fenceQuorum, fenceRedis, fenceRow}

// lockPrefix and the name of the sale make the key of the lock.
const lockPrefix = "fencelock-coupon/"

// newLocker returns a Redlock over the clients' nodes. The times of its tokens
// are noted if they come from elsewhere; its own ones take no time, since the
// answer that brings the lock brings the token.
func newLocker(fence fenceKind, ttl time.Duration, nodes []goredis.UniversalClient, db *sql.DB, keeper *gozk.Conn) (*redlock.Locker, *timedTokens, error) {
	options := []fencelock.Option{fencelock.Prefix(lockPrefix), fencelock.TTL(ttl)}
	tokens := &timedTokens{}
	switch fence {
	case fenceNone, fenceQuorum:
	case fenceRedis:
		source, err := redis.NewTokens(nodes[0], fencelock.Prefix(lockPrefix))
		if err != nil {
			return nil, nil, err
		}
		tokens.TokenSource = source
	case fenceRow:
		tokens.TokenSource = rowTokens{db}
	case fenceZK:
		source, err := zk.NewTokens(keeper, fencelock.Prefix(lockPrefix))
		if err != nil {
			return nil, nil, err
		}
		tokens.TokenSource = source
	default:
		return nil, nil, fmt.Errorf("there is no fence %q", fence)
	}
	if tokens.TokenSource != nil {
		options = append(options, redlock.Tokens(tokens))
	}
	locker, err := redlock.New(nodes, options...)
	return locker, tokens, err
}
