package etcd_test

import (
	"testing"

	"github.com/fencelock/fencelock/internal/testserver"
)

func TestSmoke(t *testing.T) {
	e := testserver.SharedEtcd(t)
	l, c := open(t, one(e)), client(t, e.Addr())
	lock := acquire(t, l, "a")
	got := wants(t, c, open(t, one(e)), "a")
	release(t, lock)
	release(t, receive(t, got))
	empty(t, c, "a")
}
