package appliance

import (
	"os"
	"runtime"
)

// syncing is how many of etcd's goroutines wait in the kernel for the disk at a
// time: the one that writes the log, and the one that writes the database.
const syncing = 2

// addProcessors gives the Go runtime a processor more for each goroutine of an
// embedded etcd that holds one while it waits for the disk. On a machine with
// two, requests had the other one alone for a good part of the time. What
// GOMAXPROCS, or a quota of the container at the start, says is obeyed: more
// threads would use up a quota sooner, and then all stand still.
func addProcessors() {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) == runtime.NumCPU() {
		runtime.GOMAXPROCS(runtime.NumCPU() + syncing)
	}
}
