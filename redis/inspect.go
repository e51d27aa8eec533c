package redis

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/lease"
)

// seen is what status.lua says.
type seen struct {
	attempt string // "" for a plain SET NX client
	fencelock.Status
}

func (d *driver) see(ctx context.Context, key string) (seen, error) {
	res, err := d.node.Run(ctx, statusScript, []string{key, companion(key)})
	if err != nil {
		return seen{}, err
	}
	r, err := res.Strings()
	if err != nil {
		return seen{}, err
	}
	value, counter := r[0], r[2]
	s := seen{Status: fencelock.Status{Held: value != "", For: millis(r[1]), Token: token(counter)}}
	if s.Held {
		attempt, first, _ := strings.Cut(value, ":")
		if s.Token = token(first); s.Token > 0 {
			s.attempt, s.Since = attempt, time.UnixMicro(int64(s.Token))
		}
	}
	s.Waiters, _ = strconv.Atoi(r[3])
	return s, nil
}

// Status implements lease.Inspector.
func (d *driver) Status(ctx context.Context, key string) (fencelock.Status, error) {
	s, err := d.see(ctx, key)
	return s.Status, err
}

// Break implements lease.Inspector. The script compares the attempt, so that a
// hold that has come since is left alone.
func (d *driver) Break(ctx context.Context, key string, first fencelock.Token) error {
	s, err := d.see(ctx, key)
	if err != nil || !s.Held || s.Token != first {
		return err
	}
	_, err = d.giveUp(ctx, lease.Request{Key: key, Attempt: s.attempt}, "broken")
	return err
}
