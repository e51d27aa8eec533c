package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// keepAliveOf returns a function that renews a lease once. The client's own,
// KeepAliveOnce, repeats without a pause what fails for want of a connection,
// until its ctx ends; it serves only where there is no connection, in a program
// that embeds the server.
func keepAliveOf(c *clientv3.Client) func(context.Context, clientv3.LeaseID) error {
	conn := c.ActiveConnection()
	if conn == nil {
		return func(ctx context.Context, id clientv3.LeaseID) error {
			_, err := c.KeepAliveOnce(ctx, id)
			return err
		}
	}
	remote := pb.NewLeaseClient(conn)
	return func(ctx context.Context, id clientv3.LeaseID) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := remote.LeaseKeepAlive(ctx)
		if err != nil {
			return clientv3.ContextError(ctx, err)
		}
		_ = stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}) // Recv has the reason if it fails
		resp, err := stream.Recv()
		if err != nil {
			return clientv3.ContextError(ctx, err)
		}
		if resp.TTL <= 0 {
			return rpctypes.ErrLeaseNotFound
		}
		return nil
	}
}
