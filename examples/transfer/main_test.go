package main

import (
	"testing"

	"github.com/fencelock/fencelock/examples/internal/storytest"
)

func TestMain(m *testing.M) { storytest.Main(m) }
