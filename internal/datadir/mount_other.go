//go:build !linux && !windows

package datadir

// isMountPoint reports whether a file system is mounted at the entry of the directory.
func isMountPoint(dir, entry string) (bool, error) { return onOtherDevice(dir, entry) }
