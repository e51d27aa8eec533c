// Package testserver gives tests real servers, and the faults that real servers and networks have.
//
//	func TestMain(m *testing.M) { testserver.Main(m) } // stops shared servers, checks for leaked goroutines
//
//	srv := testserver.SharedRedis(t)              // one plain server for all tests of the package: no pausing, no FLUSHALL
//	srv := testserver.StartRedis(t)               // this test's own: Pause, Resume, Kill, Restart, StepClock
//	pair := testserver.RedisPair(t)               // primary and replica; pair.Link.Cut(), pair.Promote()
//	cluster := testserver.RedisCluster(t)         // three masters
//	srv.Do("SET", "k", "v")                       // look at the server behind the tested client's back
//
//	db := testserver.SharedPostgres(t).NewDatabase(t) // db.URL(), db.Via(proxy.Addr()), db.Exec(sql), db.Strings(sql)
//	pg := testserver.StartPostgres(t, "fsync=on")     // this test's own: Pause, Resume, Kill, Restart
//	pair := testserver.PostgresPair(t)                // primary and standby; pair.Link.Cut(), pair.Promote()
//	pooler := testserver.PgBouncer(t, db)             // by transaction; pooler.URL(), pooler.Console("SHOW POOLS")
//	db := testserver.SharedMariaDB(t).NewDatabase(t)  // and StartMariaDB; db.DSN() instead of URL
//
//	zk := testserver.StartZooKeeper(t)                // and SharedZooKeeper; zk.Ask("mntr"), zk.Sessions(), zk.Ephemerals()
//	zks := testserver.ZooKeeperEnsemble(t)            // three; zks.Leader().Kill(); LinkedZooKeepers for CutOff
//
//	etcd := testserver.StartEtcd(t)                   // and SharedEtcd; etcd.Addr(), etcd.Metric("etcd_server_leader_changes_seen_total")
//	etcds := testserver.EtcdCluster(t)                // three; etcds.Leader().Kill(), etcds.Follower().Pause()
//
//	p := testserver.NewProxy(t, srv.Addr())       // any protocol: Delay, Drop (black hole), Freeze, Cut, Heal, Retarget
//	p := testserver.NewRedisProxy(t, srv.Addr())  // also single requests: DropReply, CutReply, Hold, Record and Replay
//
//	testserver.RegisterWorker("name", f)          // in TestMain, before Main
//	w := testserver.StartWorker(t, "name", "arg") // f in a process of its own: Send, Line, Pause, Resume, Kill, Wait
//
// Servers come from the machine's binaries, or from an address in the environment (RedisEnv, PostgresEnv, MySQLEnv, ZooKeeperEnv,
// EtcdAddrEnv); etcd is built, once, from the module proxy (or is the binary at EtcdEnv). Those that refuse root run as another user. A test that cannot have its server is skipped, loudly; with
// FENCELOCK_TEST_REQUIRE=1 it fails. Servers end with the test that started them, also when the test process is killed, and
// print the end of their log if the test has failed.
//
// To add a kind of server: Binary finds the program, Start or startOnPort runs and watches it (Command says how), the rest
// is the server's own.
package testserver
