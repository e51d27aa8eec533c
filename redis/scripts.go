package redis

import (
	_ "embed"

	"github.com/fencelock/fencelock/internal/redisnode"
)

//go:embed grant.lua
var grantLua string

//go:embed acquire_hot.lua
var acquireHotLua string

//go:embed acquire.lua
var acquireLua string

//go:embed release_hot.lua
var releaseHotLua string

//go:embed release.lua
var releaseLua string

//go:embed renew.lua
var renewLua string

//go:embed status.lua
var statusLua string

//go:embed next.lua
var nextLua string

var (
	acquireScript = redisnode.NewBareScript(acquireHotLua + redisnode.Lib + grantLua + acquireLua)
	releaseScript = redisnode.NewBareScript(releaseHotLua + redisnode.Lib + grantLua + releaseLua)
	renewScript   = redisnode.NewBareScript(renewLua)
	statusScript  = redisnode.NewBareScript(statusLua)
	nextScript    = redisnode.NewScript(nextLua)
)

// The suffixes of our own keys, each in the slot of the key it belongs to. All
// begin with reserved.
const (
	reserved = ":fencelock"

	companionSuffix = ":fencelock:"
	fenceSuffix     = ":fencelock-fence:"
	tokenSuffix     = ":fencelock-token:"
)

// companion returns the key that keeps counter, queue and tombstones of a lock.
func companion(lock string) string { return redisnode.Sibling(lock, companionSuffix) }
