package torture

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
	gozk "github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/etcd"
	"github.com/fencelock/fencelock/internal/testserver"
	"github.com/fencelock/fencelock/mysql"
	"github.com/fencelock/fencelock/pg"
	"github.com/fencelock/fencelock/redis"
	"github.com/fencelock/fencelock/redlock"
	"github.com/fencelock/fencelock/zk"
)

const prefix = "fencelock/" // the default

func init() {
	backends = map[string]backend{
		"redis":       {time.Second, func(t *testing.T) world { return onRedis(t, 1) }, openRedis},
		"redlock":     {time.Second, func(t *testing.T) world { return onRedis(t, 3) }, openRedlock},
		"pg-lease":    {time.Second, onPostgres, openPG(pg.NewLease)},
		"pg-advisory": {2 * time.Second, onSessions, openPG(pg.NewAdvisory)},
		"mysql-lease": {time.Second, onMySQL, openMySQL},
		"etcd":        {2 * time.Second, onEtcd, openEtcd},
		"zk":          {2 * time.Second, onZooKeeper, openZK},
	}
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func onRedis(t *testing.T, n int) world {
	w := world{wall: true}
	var nodes []*testserver.Redis
	for range n {
		node := testserver.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
		nodes = append(nodes, node)
		w.nodes, w.addrs = append(w.nodes, node), append(w.addrs, node.Addr())
	}
	w.urls = func(addrs []string) []string { return addrs }
	w.step = func(d time.Duration) {
		for _, node := range nodes[:n/2+1] {
			node.StepClock(d)
		}
	}
	w.remove = func(name string) {
		for _, node := range nodes[:n/2+1] {
			node.Do("DEL", prefix+name)
		}
	}
	if n > 1 {
		w.wipe = func() { nodes[0].Do("FLUSHALL") }
	}
	w.residue = func() (left []string) {
		for _, node := range nodes {
			for _, key := range node.Do("KEYS", prefix+"*").([]any) {
				if node.Do("TYPE", key.(string)) == "string" {
					left = append(left, key.(string))
				}
			}
		}
		return left
	}
	return w
}

func dialRedis(addr string) *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: addr, DialTimeout: time.Second, ReadTimeout: time.Second, MaxRetries: -1})
}

// owned is a Locker with a client of its own.
type owned struct {
	locker
	free func()
}

func (o owned) Close(ctx context.Context) error {
	defer o.free()
	return o.locker.Close(ctx)
}

func openRedis(servers []string, opts ...fencelock.Option) (locker, error) {
	c := dialRedis(servers[0])
	l, err := redis.New(c, opts...)
	return owned{l, func() { _ = c.Close() }}, err
}

func openRedlock(servers []string, opts ...fencelock.Option) (locker, error) {
	var nodes []goredis.UniversalClient
	for _, addr := range servers {
		nodes = append(nodes, dialRedis(addr))
	}
	l, err := redlock.New(nodes, opts...)
	return owned{l, func() {
		for _, n := range nodes {
			_ = n.Close()
		}
	}}, err
}

func onPostgres(t *testing.T) world {
	s := testserver.StartPostgres(t, "max_connections=400", "fsync=on")
	pool, err := pgxpool.New(soon(t), s.URL())
	require.NoError(t, err)
	require.NoError(t, pg.Migrate(soon(t), pool))
	pool.Close()
	return world{
		nodes: []node{s}, addrs: []string{s.Addr()},
		urls:   func(addrs []string) []string { return []string{s.Via(addrs[0])} },
		remove: func(name string) { s.Exec("UPDATE fencelock_locks SET owner = NULL WHERE name = $1", prefix+name) },
		terminate: func() {
			s.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1`)
		},
		residue: func() []string {
			return append(s.Strings("SELECT name FROM fencelock_locks WHERE owner IS NOT NULL AND expires_at > clock_timestamp()"),
				s.Strings("SELECT 'advisory lock of ' || pid FROM pg_locks WHERE locktype = 'advisory'")...)
		},
	}
}

// onSessions is onPostgres where the hold is a session.
func onSessions(t *testing.T) world {
	w := onPostgres(t)
	w.remove, w.session = nil, true
	return w
}

func openPG[L locker](create func(*pgxpool.Pool, ...fencelock.Option) (L, error)) func([]string, ...fencelock.Option) (locker, error) {
	return func(servers []string, opts ...fencelock.Option) (locker, error) {
		pool, err := pgxpool.New(context.Background(), servers[0]+"&pool_max_conns=10&connect_timeout=2")
		if err != nil {
			return nil, err
		}
		l, err := create(pool, opts...)
		return owned{l, pool.Close}, err
	}
}

func onMySQL(t *testing.T) world {
	s := testserver.StartMariaDB(t, "--innodb-flush-log-at-trx-commit=1")
	db, err := sql.Open("mysql", s.DSN())
	require.NoError(t, err)
	require.NoError(t, mysql.Migrate(soon(t), db))
	require.NoError(t, db.Close())
	return world{
		nodes: []node{s}, addrs: []string{s.Addr()},
		urls:   func(addrs []string) []string { return []string{s.Via(addrs[0])} },
		remove: func(name string) { s.Exec("UPDATE fencelock_locks SET owner = NULL WHERE name = ?", prefix+name) },
		residue: func() []string {
			return s.Strings("SELECT name FROM fencelock_locks WHERE owner IS NOT NULL AND expires_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))")
		},
	}
}

type silent struct{}

func (silent) Print(...any) {}

func openMySQL(servers []string, opts ...fencelock.Option) (locker, error) {
	c, err := driver.ParseDSN(servers[0])
	if err != nil {
		return nil, err
	}
	c.Timeout, c.Logger = 2*time.Second, silent{}
	db, err := sql.Open("mysql", c.FormatDSN())
	if err != nil {
		return nil, err
	}
	l, err := mysql.NewLease(db, opts...)
	return owned{l, func() { _ = db.Close() }}, err
}

func onEtcd(t *testing.T) world {
	e := testserver.EtcdCluster(t)
	c, err := dialEtcd(e.Addrs())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	keys := func(ctx context.Context, begin string) (keys []string) {
		resp, err := c.Get(ctx, prefix+begin, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
		require.NoError(t, err)
		for _, kv := range resp.Kvs {
			if !strings.Contains(string(kv.Key), "%") {
				keys = append(keys, string(kv.Key))
			}
		}
		return keys
	}
	w := world{
		addrs: e.Addrs(), leader: func() node { return e.Leader() },
		urls: func(addrs []string) []string { return addrs },
		remove: func(name string) {
			if keys := keys(soon(t), name+"#"); len(keys) > 0 {
				_, err := c.Delete(soon(t), keys[0])
				require.NoError(t, err)
			}
		},
		compact: func() {
			resp, err := c.Get(soon(t), "x")
			require.NoError(t, err)
			_, err = c.Compact(soon(t), resp.Header.Revision)
			require.NoError(t, err)
		},
		residue: func() []string { return keys(soon(t), "") },
	}
	for _, m := range e.Members {
		w.nodes = append(w.nodes, m)
	}
	return w
}

func dialEtcd(addrs []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: addrs, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: time.Second, Logger: zap.NewNop(),
	})
}

func openEtcd(servers []string, opts ...fencelock.Option) (locker, error) {
	c, err := dialEtcd(servers)
	if err != nil {
		return nil, err
	}
	l, err := etcd.New(c, opts...)
	return owned{l, func() { _ = c.Close() }}, err
}

func onZooKeeper(t *testing.T) world {
	e := testserver.ZooKeeperEnsemble(t)
	w := world{
		addrs: e.Addrs(), leader: func() node { return e.Leader() },
		urls: func(addrs []string) []string { return addrs },
		remove: func(name string) {
			c, _, err := gozk.Connect(e.Addrs(), 10*time.Second, gozk.WithLogger(quiet{}))
			require.NoError(t, err)
			defer c.Close()
			children, _, err := c.Children("/fencelock/" + name)
			slices.SortFunc(children, func(a, b string) int { return strings.Compare(a[max(0, len(a)-10):], b[max(0, len(b)-10):]) })
			if err == nil && len(children) > 0 {
				_ = c.Delete("/fencelock/"+name+"/"+children[0], -1) // it may have gone
			}
		},
		residue: func() []string { return e.Leader().Ephemerals() },
	}
	for _, m := range e.Members {
		w.nodes = append(w.nodes, m)
	}
	return w
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func openZK(servers []string, opts ...fencelock.Option) (locker, error) {
	return zk.New(servers, opts...)
}
