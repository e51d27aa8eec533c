package etcd

import (
	"context"
	"errors"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// watch tells of the deletion of one key.
type watch struct {
	events <-chan clientv3.WatchResponse // receives, or is closed, when it is time to look
	stop   func()
}

var errNoWatch = errors.New("etcd: the server does not confirm a watch")

// watch returns when the server has confirmed that it watches key from now on. (A
// watch from a past revision would be served only every 100 ms.)
func (d *driver) watch(ctx context.Context, key string) (*watch, error) {
	d.mu.Lock()
	stream := strconv.Itoa(d.stream)
	d.mu.Unlock()
	// All watches with the same metadata share one stream.
	streamCtx := metadata.NewOutgoingContext(context.WithoutCancel(ctx), metadata.Pairs("fencelock-stream", stream))
	watchCtx, cancel := context.WithCancel(clientv3.WithRequireLeader(streamCtx))
	follow := context.AfterFunc(ctx, cancel)
	stop := func() { follow(); cancel() }

	hung := time.AfterFunc(patience, cancel) // Watch itself blocks until confirmed
	events := d.client.Watch(watchCtx, key, clientv3.WithCreatedNotify(), clientv3.WithFilterPut())
	resp, ok := <-events
	switch {
	case !hung.Stop() && ctx.Err() == nil:
		d.nextStream()
		fallthrough
	case !ok || resp.Err() != nil || !resp.Created:
		stop()
		return nil, errors.Join(errNoWatch, resp.Err(), ctx.Err())
	}
	return &watch{events, stop}, nil
}

// nextStream has later watches use another stream, which another member may
// serve.
func (d *driver) nextStream() {
	d.mu.Lock()
	d.stream++
	d.mu.Unlock()
}

// deaf is a watch that tells nothing.
func deaf() *watch { return &watch{nil, func() {}} }

// await waits until it is time to look, and reports whether the watch has said so.
func (w *watch) await(ctx context.Context, most time.Duration) (told bool) {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-w.events:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}
