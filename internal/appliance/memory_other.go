//go:build !linux

package appliance

// releaseProgramPages does nothing: this platform's kernel decides alone.
func releaseProgramPages() error { return nil }
