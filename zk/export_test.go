package zk

// Parent is the node under which the queue of a name stands.
func Parent(prefix, name string) string { return newTree(prefix).lock(name) }

// Element, Ahead, Front and Block are looked at on their own.
var (
	Element = element
	Ahead   = ahead
	Front   = front
	Block   = block
)

// ViewToken is the change that may stand for own's creation.
func ViewToken(children []string, last int64, own string) int64 {
	return view{children, last}.token(own)
}
