// Package torture tries to break the locks: worker processes take them and write
// to a register under their tokens, while workers, servers and the links between
// them are stopped, killed, cut, delayed and robbed, and clocks are stepped. Then
// it looks at what everybody saw.
//
//	make torture SEED=1 BACKEND=redis DURATION=90s
package torture
