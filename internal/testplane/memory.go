package testplane

import "runtime/debug"

// releaseMemory returns what the initialisation of the packages has left to the
// system.
func releaseMemory() { debug.FreeOSMemory() }
