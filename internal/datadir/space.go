package datadir

import "fmt"

// ErrNoSpace means that writing would not leave the disk the room that is
// needed.
var ErrNoSpace = fmt.Errorf("not enough room on the disk")

// reserve is what has to stay free for etcd: its log is extended in steps of
// 64 MiB, and a database grows before it is compacted.
const reserve = 256 << 20

// Room returns an error that is ErrNoSpace when n bytes more in the directory
// would fill its disk; on the disk of the data directory, up to what the server
// needs to live on. Nobody holds the room that was found, so that it is a
// precaution and no promise.
func Room(dir string, n int64, dataDir string) error {
	free, total, err := DiskSpace(dir)
	if err != nil {
		return fmt.Errorf("ask how much room there is in %s: %w", dir, err)
	}
	oursFree, ours, err := DiskSpace(dataDir)
	if err != nil {
		return fmt.Errorf("ask how much room there is in %s: %w", dataDir, err)
	}
	// File systems that share a pool have the same room left.
	same := dir == dataDir || total == ours || free == oursFree
	const mib = 1 << 20
	switch {
	case free < n:
		return fmt.Errorf("%w: %s has %d MiB left, %d MiB are wanted; make room or choose another directory", ErrNoSpace, dir, free/mib, n/mib)
	case free < n+reserve && same:
		return fmt.Errorf("%w: %s has %d MiB left, %d MiB are wanted and %d MiB have to stay free for the server; make room or choose another directory", ErrNoSpace, dir, free/mib, n/mib, int64(reserve)/mib)
	}
	return nil
}
