package etcd_test

import "github.com/fencelock/fencelock/internal/testserver"

func registerWorkers() { testserver.RegisterWorker("fight", fight) }
