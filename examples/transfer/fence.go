//go:build !openfence

package main

// admitting is whether the arm with the fence asks it.
const admitting = true
