package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// openFenceEnv replaces the fence's comparison by true, in this process and in
// the instances of the shop that it starts.
const openFenceEnv = "FENCELOCK_COUPON_TEST_OPEN_FENCE"

const alwaysTrue = "(TRUE OR fence <= $2)"

func TestMain(m *testing.M) {
	if os.Getenv(openFenceEnv) != "" {
		admits = alwaysTrue
	}
	if config, ok := os.LookupEnv(shopEnv); ok {
		os.Exit(runShop(config))
	}
	goleak.VerifyTestMain(m)
}
