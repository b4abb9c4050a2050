package testplane

import "runtime/debug"

// releaseMemory returns the garbage of the packages' initialisation to the
// system.
func releaseMemory() { debug.FreeOSMemory() }
