//go:build !linux

package main

// forget does nothing: there is nothing to measure on this platform.
func forget(string) error { return nil }

// settleDisk does nothing either.
func settleDisk() {}
