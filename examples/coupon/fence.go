//go:build !openfence

package main

// admits is the fence: its comparison in SQL, $2 being the token of the one who
// asks.
const admits = "fence <= $2"
