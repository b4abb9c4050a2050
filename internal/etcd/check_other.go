//go:build !linux

package etcd

// limitMemory does nothing: this system has no such limit.
func limitMemory(uint64) error { return nil }
