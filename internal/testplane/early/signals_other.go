//go:build !linux

package early

// ignoreSignals does nothing on this platform: the guard is in a session of its own,
// where no signal for its parent reaches it.
func ignoreSignals() {}
