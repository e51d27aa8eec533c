package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/examples/internal/child"
)

// shopConfig is what an instance of the shop is told, as JSON in the environment
// variable shopEnv.
type shopConfig struct {
	Sale     string
	Fence    fenceKind
	Coupons  int
	TTL      time.Duration
	Wait     time.Duration
	Work     time.Duration
	Redis    []string // addresses of the lock's nodes
	Database string
	Keepers  []string // addresses of the ZooKeeper, if the fence is fenceZK
}

const (
	shopEnv = "FENCELOCK_COUPON_SHOP"
	// working is the line an instance prints when it is inside the critical
	// section.
	working = "working"
	// connectWait bounds an instance's first contact with its servers.
	connectWait = 10 * time.Second
)

// runShop is the main function of an instance. It prints its address and serves
// until the parent process says so or dies.
func runShop(config []byte) error {
	var c shopConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return err
	}
	return serveShop(c)
}

func serveShop(c shopConfig) error {
	db, err := openDatabase(c.Database)
	if err != nil {
		return err
	}
	defer db.Close()
	clients := make([]redis.UniversalClient, len(c.Redis))
	for i, address := range c.Redis {
		clients[i] = redis.NewClient(&redis.Options{Addr: address})
		defer clients[i].Close()
	}
	var keeper *gozk.Conn
	if c.Fence == fenceZK {
		if keeper, err = openKeeper(c.Keepers); err != nil {
			return err
		}
		defer keeper.Close()
	}
	if err := connect(db, clients, keeper); err != nil {
		return err
	}
	locker, tokens, err := newLocker(c.Fence, c.TTL, clients, db, keeper)
	if err != nil {
		return err
	}
	defer locker.Close(context.Background())

	s := &shop{
		locker:  locker,
		sale:    sale{db: db, name: c.Sale, fenced: c.Fence != fenceNone},
		coupons: c.Coupons,
		wait:    c.Wait,
		work:    c.Work,
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /coupons/{request}", s.handle)
	mux.HandleFunc("GET /token-times", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(tokens.times())
	})

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Println(listener.Addr())
	child.Orphaned()
	_ = server.Close()
	<-served
	return nil
}

// connect opens a connection to each server, so that the first buyers need not
// wait for it.
func connect(db *sql.DB, nodes []redis.UniversalClient, keeper *gozk.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), connectWait)
	defer cancel()
	err := db.PingContext(ctx)
	for _, n := range nodes {
		err = errors.Join(err, n.Ping(ctx).Err())
	}
	if keeper != nil {
		err = errors.Join(err, awaitKeeper(ctx, keeper))
	}
	return err
}

// handle answers 200 with the coupon's number, 410 "sold out", 503 "busy" when
// the lock was not to be had in time, or 409 when the fence refused the write.
func (s *shop) handle(w http.ResponseWriter, r *http.Request) {
	number, err := s.sell(r.Context(), r.PathValue("request"))
	switch {
	case number > 0:
		// The coupon is written. Whether the lock was lost meanwhile, which err
		// may say, no longer matters: with a fence it was still ours to write,
		// without one nobody asked.
		fmt.Fprintln(w, number)
	case errors.Is(err, errSoldOut):
		http.Error(w, "sold out", http.StatusGone)
	case errors.Is(err, fencelock.ErrStale):
		http.Error(w, err.Error(), http.StatusConflict)
	case errors.Is(err, fencelock.ErrHeld):
		http.Error(w, "busy", http.StatusServiceUnavailable)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
