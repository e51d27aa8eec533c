package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// embeddedServers are three Redis nodes in this process and an SQLite file:
// nothing to install.
func embeddedServers(ctx context.Context) (_ *servers, err error) {
	dir, err := os.MkdirTemp("", "coupon-")
	if err != nil {
		return nil, err
	}
	s := &servers{database: "sqlite:" + filepath.Join(dir, "shop.db")}
	var nodes []*embeddedRedis
	s.close = func() error {
		for _, n := range nodes {
			n.Close()
		}
		return os.RemoveAll(dir)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err := execute(ctx, s.database, createTables); err != nil {
		return nil, err
	}
	for range 3 {
		n, err := startEmbeddedRedis()
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
		s.redis = append(s.redis, n.Addr())
	}
	s.step = func(_ context.Context, _ string, d time.Duration) error {
		for _, n := range nodes[:stepped] {
			n.step(d)
		}
		return nil
	}
	return s, nil
}

// embeddedRedis is a Redis in this process whose wall clock can jump.
type embeddedRedis struct {
	*miniredis.Miniredis

	mu     sync.Mutex
	offset time.Duration
}

func startEmbeddedRedis() (*embeddedRedis, error) {
	r := &embeddedRedis{Miniredis: miniredis.NewMiniRedis()}
	if err := r.Start(); err != nil {
		return nil, err
	}
	// Its time stands still unless it is told, so tell it before each script: all
	// that our locks and tokens send are scripts. (Not before other commands: a
	// script sends those itself while it has the server locked.)
	r.tell()
	r.ClockTTL(true)
	r.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
		if command == "EVAL" || command == "EVALSHA" {
			r.tell()
		}
		return false
	})
	return r, nil
}

// step makes the clock jump by d.
func (r *embeddedRedis) step(d time.Duration) {
	r.mu.Lock()
	r.offset += d
	r.mu.Unlock()
	r.tell()
}

// tell sets the server's clock.
func (r *embeddedRedis) tell() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.SetTime(time.Now().Add(r.offset))
}
