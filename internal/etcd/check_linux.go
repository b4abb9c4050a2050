package etcd

import "golang.org/x/sys/unix"

// limitMemory bounds the memory of this process, in bytes.
func limitMemory(bytes uint64) error {
	return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: bytes, Max: bytes})
}
