package redisnode

import (
	"strconv"
	"strings"
)

// Slot returns the hash slot of key in a cluster (the cluster specification's
// "Hash tags").
func Slot(key string) uint16 {
	if tag, ok := hashTag(key); ok {
		key = tag
	}
	return crc16(key) % 16384
}

// Sibling returns a key of the same slot as key, made of suffix, which starts
// with a colon. Siblings of different keys, or with different suffixes, differ.
func Sibling(key, suffix string) string {
	if tag, ok := hashTag(key); ok {
		return "{" + tag + "}" + suffix + key
	}
	if !strings.ContainsRune(key, '}') {
		return "{" + key + "}" + suffix
	}
	// No tag can hold a closing brace, so take any that falls into the slot.
	want := Slot(key)
	for i := 0; ; i++ {
		if tag := strconv.Itoa(i); crc16(tag)%16384 == want {
			return "{" + tag + "}" + suffix + key
		}
	}
}

// IsSibling reports whether key has the form of a Sibling with suffix.
func IsSibling(key, suffix string) bool {
	if !strings.HasPrefix(key, "{") {
		return false
	}
	_, rest, ok := strings.Cut(key, "}")
	return ok && strings.HasPrefix(rest, suffix)
}

// hashTag returns what stands between the first opening brace and the first
// closing one after it, unless that is empty.
func hashTag(key string) (string, bool) {
	_, rest, ok := strings.Cut(key, "{")
	if !ok {
		return "", false
	}
	tag, _, ok := strings.Cut(rest, "}")
	return tag, ok && tag != ""
}

// crc16 is CRC-16/XMODEM.
func crc16(s string) (crc uint16) {
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}
