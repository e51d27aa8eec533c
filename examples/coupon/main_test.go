package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/fencelock/fencelock/examples/internal/child"
)

func TestMain(m *testing.M) {
	child.Main(shopEnv, runShop)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		removePrograms()
		os.Exit(code)
	}))
}
