package etcd

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencelock/fencelock"
)

// line reads the keys of a name, the holder's first.
func (d *driver) line(ctx context.Context, key string) ([]*mvccpb.KeyValue, error) {
	resp, err := d.client.Get(ctx, space(key), clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return nil, err
	}
	return resp.Kvs, nil
}

func firstToken(kv *mvccpb.KeyValue) fencelock.Token {
	return fencelock.Token(kv.CreateRevision << tokenBits)
}

// Status implements lease.Inspector.
func (d *driver) Status(ctx context.Context, key string) (s fencelock.Status, err error) {
	line, err := d.line(ctx, key)
	if err != nil || len(line) == 0 {
		return s, err
	}
	s.Held, s.Waiters, s.Token = true, len(line)-1, firstToken(line[0])
	if id := clientv3.LeaseID(line[0].Lease); id != clientv3.NoLease {
		left, err := d.client.TimeToLive(ctx, id)
		if err != nil {
			return s, err
		}
		s.For = max(0, time.Duration(left.TTL)*time.Second)
	}
	return s, nil
}

// Break implements lease.Inspector. A key that was deleted and made again has
// another revision.
func (d *driver) Break(ctx context.Context, key string, first fencelock.Token) error {
	line, err := d.line(ctx, key)
	if err != nil || len(line) == 0 || firstToken(line[0]) != first {
		return err
	}
	k := string(line[0].Key)
	_, err = d.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(k), "=", line[0].CreateRevision)).
		Then(clientv3.OpDelete(k)).
		Commit()
	return err
}
