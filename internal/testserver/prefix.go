package testserver

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"testing"
)

var notInKey = regexp.MustCompile(`[^A-Za-z0-9]+`)

// Prefix returns a prefix for names and keys that no other test uses, so that tests can share a server.
func Prefix(tb testing.TB) string {
	return fmt.Sprintf("%s-%x/", notInKey.ReplaceAllString(tb.Name(), "-"), rand.Uint64())
}
