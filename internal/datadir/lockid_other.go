//go:build !linux

package datadir

import "os"

// lockID is not known on this system.
func lockID(*os.File) string { return "" }
