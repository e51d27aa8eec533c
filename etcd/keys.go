package etcd

import (
	"strconv"
	"strings"
)

// '%' and '#' are escaped in names, so '#' ends a name and no name's keys are
// among those of another that begins with it.
var escape = strings.NewReplacer("%", "%25", "#", "%23").Replace

// space is what the keys of one lock, and no others, begin with.
func space(key string) string { return escape(key) + "#" }

// sibling is a key that stands beside the locks.
func sibling(key, what string) string { return escape(key) + "%" + what }

// slotKey is the key of an attempt. A Locker uses the same few again and again:
// the server walks the remains of deleted keys until they are compacted, so fresh
// keys would make every acquisition slower than the one before.
func slotKey(space string, id int64, slot int) string {
	return space + strconv.FormatInt(id, 16) + "-" + strconv.Itoa(slot)
}
