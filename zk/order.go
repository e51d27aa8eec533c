package zk

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// A node in a queue is named as go-zookeeper's own Lock names its nodes, so that
// the two respect each other: _c_<32 hexadecimal digits>-lock-<sequence number>.
// Here the digits are the attempt's.
const (
	nodeBegin  = "_c_"
	nodeMiddle = "-lock-"
	hexDigits  = 32
)

func nodeName(attempt string) string { return nodeBegin + attempt + nodeMiddle }

// sequence reads the number of a queue's node. Other children are not ours and
// have none.
func sequence(child string) (int32, bool) {
	rest, ok := strings.CutPrefix(child, nodeBegin)
	if !ok || len(rest) < hexDigits {
		return 0, false
	}
	id, number := rest[:hexDigits], rest[hexDigits:]
	if strings.Trim(id, "0123456789abcdef") != "" {
		return 0, false
	}
	number, ok = strings.CutPrefix(number, nodeMiddle)
	n, err := strconv.ParseInt(number, 10, 32)
	return int32(n), ok && err == nil
}

// earlier orders two numbers of one queue. Servers may count on from 2147483647 to
// -2147483648; all that live at the same time are less than 2^31 apart. ZooKeeper
// 3.8 does not, and gives the same number again and again: see tied.
func earlier(a, b int32) bool { return b-a > 0 }

// ahead returns the child that is next ahead of own in the queue, "" if none is.
func ahead(children []string, own string) (next string) {
	mine, _ := sequence(own)
	var best int32
	for _, c := range children {
		n, ok := sequence(c)
		if ok && earlier(n, mine) && (next == "" || earlier(best, n)) {
			next, best = c, n
		}
	}
	return next
}

// tied returns the other children that have own's number.
func tied(children []string, own string) (ties []string) {
	mine, _ := sequence(own)
	for _, c := range children {
		if n, ok := sequence(c); ok && n == mine && c != own {
			ties = append(ties, c)
		}
	}
	return ties
}

// front returns the children that are in the queue, and the first of them.
func front(children []string) (first string, queued int) {
	var best int32
	for _, c := range children {
		n, ok := sequence(c)
		if !ok {
			continue
		}
		if queued++; queued == 1 || earlier(n, best) {
			first, best = c, n
		}
	}
	return first, queued
}

// of returns the nodes of one attempt, the first one first.
func of(children []string, attempt string) (own []string) {
	for _, c := range children {
		if _, ok := sequence(c); ok && strings.HasPrefix(c, nodeName(attempt)) {
			own = append(own, c)
		}
	}
	if first, n := front(own); n > 1 {
		for i, c := range own {
			if c == first {
				own[0], own[i] = own[i], own[0]
			}
		}
	}
	return own
}

// view is a queue as a server saw it.
type view struct {
	children []string
	zxid     int64 // of the last change of the children
}

// token returns the number of a change that may stand for own's creation: not
// before it, and before that of every node that may ever be behind. That is the
// last change there was, while nobody is behind. It returns 0 if that is not known: a
// server that has come to the end of its numbers no longer notes the change.
func (v view) token(own string) int64 {
	mine, _ := sequence(own)
	if mine < 0 || mine == math.MaxInt32 || !slices.Contains(v.children, own) {
		return 0
	}
	for _, c := range v.children {
		if n, ok := sequence(c); ok && c != own && !earlier(n, mine) {
			return 0
		}
	}
	return v.zxid
}
