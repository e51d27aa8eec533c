//go:build !openfence

package main

// admitting is whether the fence is asked.
const admitting = true
