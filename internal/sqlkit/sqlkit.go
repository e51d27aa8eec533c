// Package sqlkit is what the SQL backends share word for word: how a name is
// told to a database (key), which errors mean "try again" and how often (retry),
// the loop of TryAny (any), a counter without row locks (optimistic), and the
// refusals that have one text (refuse, options). It knows no driver.
package sqlkit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// Key identifies prefix + name at the server. A name may have any length and
// contain any bytes, a column and a lock of the server may not; and a hash of 32
// bits would make two names one lock.
type Key [sha256.Size]byte

// KeyOf returns the key of prefix + name.
func KeyOf(s string) Key { return sha256.Sum256([]byte(s)) }

// Int64 is the key of an advisory lock.
func (k Key) Int64() int64 { return int64(binary.BigEndian.Uint64(k[:8])) }

// Hex is the key as a name of 64 characters.
func (k Key) Hex() string { return hex.EncodeToString(k[:]) }

const maxLabel = 120

// Label is s as operators may read it in a table: printable ASCII, since not
// every database stores everything else, and at most 120 characters. It
// identifies nothing.
func Label(s string) string {
	if len(s) > maxLabel {
		s = s[:maxLabel] // escaping makes it longer, never shorter
	}
	q := strconv.QuoteToASCII(s)
	q = q[1 : len(q)-1]
	if len(q) > maxLabel {
		q = q[:maxLabel]
	}
	return q
}
