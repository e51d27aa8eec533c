package etcd

import "strconv"

// Space is what the keys of a name begin with.
var Space = space

// Hex is how a lease appears in a key.
func Hex(id int64) string { return strconv.FormatInt(id, 16) }
