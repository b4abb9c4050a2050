//go:build !linux

package appliance

// relaxTimers does nothing: where this system has such a thing, it is not ours
// to set.
func relaxTimers(bool) error { return nil }
