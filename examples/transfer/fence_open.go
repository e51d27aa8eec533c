//go:build openfence

package main

// Built like this the fence is never asked: the tests look whether the money is
// lost again.
const admitting = false
