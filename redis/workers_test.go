package redis_test

func registerWorkers() {}
