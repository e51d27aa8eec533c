package pg

import "time"

// SetSlice sets how long a statement waits for a lock, and returns what undoes it.
func SetSlice(d time.Duration) (undo func()) {
	before := slice
	slice = d
	return func() { slice = before }
}
