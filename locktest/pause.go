package locktest

import "os"

// pause and wake stop a process and let it go on. They are nil where the system
// knows no such thing.
var pause, wake func(*os.Process) error
