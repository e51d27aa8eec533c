package etcd_test

func registerWorkers() {}
