package zk

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// tree says where the nodes of a prefix stand. Of the prefix "app/locks-" the
// folder is /app, and each name's last element begins with "locks-".
type tree struct{ folder, stem string }

func newTree(prefix string) tree {
	parts := strings.Split(prefix, "/")
	last := len(parts) - 1
	t := tree{stem: parts[last]}
	for _, p := range parts[:last] {
		t.folder += "/" + element(p)
	}
	return t
}

// lock is the parent of a name's queue.
func (t tree) lock(name string) string { return t.folder + "/" + element(t.stem+name) }

// fence is the record of a name's fence, tokens the node that NewTokens writes to.
// No name's element begins with an underscore.
func (t tree) fence(name string) string { return t.folder + "/_fence/" + element(t.stem+name) }
func (t tree) tokens() string           { return t.folder + "/_tokens" }

func parentOf(path string) string { return path[:strings.LastIndexByte(path, '/')] }

const (
	longest = 200 // an element of a path, escaped
	plain   = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:@+=,"
)

// element makes one element of a path of any text, and different ones of
// different texts: a slash would make one name another's child, and ZooKeeper
// refuses NUL, control characters, "." and "..". A long text is cut, with its
// hash behind "%~", which no escape begins with.
func element(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		reserved := i == 0 && (c == '_' || s == "." || s == ".." || s == "zookeeper")
		if strings.IndexByte(plain, c) >= 0 && !reserved {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteString(strings.ToUpper(hex.EncodeToString([]byte{c})))
		}
	}
	switch e := b.String(); {
	case e == "":
		return "%"
	case len(e) > longest:
		sum := sha256.Sum256([]byte(s))
		return e[:100] + "%~" + hex.EncodeToString(sum[:])
	default:
		return e
	}
}
