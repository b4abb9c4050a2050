//go:build !linux

package memory

// releaseProgram does nothing on this platform.
func releaseProgram() error { return nil }

// ReleaseFile does nothing on this platform.
func ReleaseFile(string) error { return nil }
