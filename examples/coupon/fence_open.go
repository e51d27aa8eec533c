//go:build openfence

package main

// admits is the fence with its comparison replaced by true. The tests build the
// program with it to show that it is the comparison that saves the sale.
const admits = "(TRUE OR fence <= $2)"
