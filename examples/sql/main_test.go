package sql

import (
	"testing"

	"github.com/fencelock/fencelock/internal/testserver"
)

func TestMain(m *testing.M) { testserver.Main(m) }
