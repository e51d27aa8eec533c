package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"sync"
	"time"
	mrand "math/rand/v2"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/option"
)

type fenceKind string

const (
	fenceNone   fenceKind = "none"   // the published shop: a lock and nothing else
	fenceQuorum fenceKind = "quorum" // redlock's own tokens, which come with the lock
	fenceRedis  fenceKind = "redis"  // a counter on one of the Redis nodes
	fenceRow    fenceKind = "db"     // a row of the shop's database
)

var fences = []fenceKind{fenceNone, fenceQuorum, fenceRedis, fenceRow}
const lockPrefix = "fencelock-coupon/"

type standin struct {
	nodes []goredis.UniversalClient
	ttl time.Duration
	tokens fencelock.TokenSource
	mu chan struct{}
}
type standinLock struct{ fencelock.Lock; s *standin; name, id string; tok fencelock.Token }

var acq = goredis.NewScript(`local v=redis.call('GET',KEYS[1]); if v and v~=ARGV[1] then return 0 end; redis.call('SET',KEYS[1],ARGV[1],'PX',ARGV[2]); return 1`)
var rel = goredis.NewScript(`if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end; return 0`)
var inc = goredis.NewScript(`return redis.call('INCR',KEYS[1])`)

type incTokens struct{c goredis.UniversalClient}
func (i incTokens) Next(ctx context.Context, name string) (fencelock.Token, error) { n,err:=inc.Run(ctx,i.c,[]string{"tok:"+name}).Int64(); return fencelock.Token(n),err }

func (s *standin) Close(context.Context) error { return nil }
func (s *standin) TryAcquire(ctx context.Context, name string, opts ...fencelock.Option) (fencelock.Lock, error) { panic("no") }
func (s *standin) Acquire(ctx context.Context, name string, opts ...fencelock.Option) (fencelock.Lock, error) {
	var o option.Set
	for _, f := range opts { f(&o) }
	end := time.After(o.Wait)
	select { case s.mu <- struct{}{}: case <-end: return nil, &fencelock.HeldError{Name:name} }
	id := rand.Text()
	for {
		n := 0
		var mu sync.Mutex; var wg sync.WaitGroup
		for _, c := range s.nodes { wg.Go(func(){ v,err:=acq.Run(ctx,c,[]string{lockPrefix+name},id,s.ttl.Milliseconds()).Int(); if err!=nil { fmt.Println(err) }; mu.Lock(); n+=v; mu.Unlock() }) }
		wg.Wait()
		if n >= 2 {
			t, err := s.tokens.Next(ctx, name)
			if err != nil { <-s.mu; return nil, err }
			return &standinLock{s:s,name:name,id:id,tok:t}, nil
		}
		for _, c := range s.nodes { rel.Run(ctx,c,[]string{lockPrefix+name},id) }
		select { case <-end: <-s.mu; return nil, &fencelock.HeldError{Name:name}
		case <-time.After(time.Duration(mrand.IntN(50))*time.Millisecond): }
	}
}
func (l *standinLock) Token() fencelock.Token { return l.tok }
func (l *standinLock) Lost() <-chan struct{} { return nil }
func (l *standinLock) Err() error { return nil }
func (l *standinLock) Release(ctx context.Context) error {
	for _, c := range l.s.nodes { rel.Run(ctx,c,[]string{lockPrefix+l.name},l.id) }
	<-l.s.mu
	return nil
}

func newLocker(fence fenceKind, ttl time.Duration, nodes []goredis.UniversalClient, db *sql.DB) (*standin, *timedTokens, error) {
	t := &timedTokens{}
	switch fence {
	case fenceRow: t.TokenSource = rowTokens{db}
	default: t.TokenSource = incTokens{nodes[0]}
	}
	return &standin{nodes:nodes, ttl: ttl, tokens: t, mu: make(chan struct{},1)}, t, nil
}
