//go:build !linux

package datadir

// isMountPoint is not known on this system: a mount point is found when it is moved.
func isMountPoint(string) (bool, error) { return false, nil }
