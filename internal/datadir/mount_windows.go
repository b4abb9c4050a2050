package datadir

// isMountPoint returns false: Windows renames the directory of a mount.
func isMountPoint(string, string) (bool, error) { return false, nil }
