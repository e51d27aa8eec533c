package main

import (
	"testing"

	"github.com/fencelock/fencelock/examples/internal/child"
	"github.com/fencelock/fencelock/examples/internal/storytest"
)

func TestMain(m *testing.M) {
	child.Main(shopEnv, runShop)
	storytest.Main(m)
}
