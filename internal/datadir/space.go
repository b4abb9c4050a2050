package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dustin/go-humanize"
)

// ErrNoSpace means that a disk does not have enough room.
var ErrNoSpace = fmt.Errorf("not enough room on the disk")

// maxReserve is enough for the next file of etcd's log, of 64 MiB.
const maxReserve = 96 << 20

// Reserve is the part, in bytes, of a disk of total bytes that must stay free for a
// server: etcd extends its log in steps and ends if it cannot. With less, the server
// refuses writes. On a small disk it is a tenth.
func Reserve(total int64) int64 { return min(maxReserve, total/10) }

// Size formats a number of bytes for messages, as "1.5 GiB".
func Size(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

// CheckRoom returns an error that is ErrNoSpace when n bytes more in the directory
// would fill its disk. On the disk of the data directory it leaves twice [Reserve]
// free. The space is not reserved: another program may use it after the check.
func CheckRoom(dir string, n int64, dataDir string) error {
	free, total, err := DiskSpace(dir)
	if err != nil {
		return fmt.Errorf("read the free space of %s: %w", dir, err)
	}
	oursFree, ours, err := DiskSpace(dataDir)
	if err != nil {
		return fmt.Errorf("read the free space of %s: %w", dataDir, err)
	}
	// File systems that share a pool have the same room left.
	same := dir == dataDir || total == ours || free == oursFree
	keep := 2 * Reserve(ours) // what is written meanwhile must not use up the reserve
	switch {
	case free < n:
		return fmt.Errorf("%w: %s has %s left, %s are needed; make room or choose another directory", ErrNoSpace, dir,
			Size(free), Size(n))
	case free < n+keep && same:
		return fmt.Errorf("%w: %s has %s left, %s are needed and %s must stay free for the server; make room or "+
			"choose another directory", ErrNoSpace, dir, Size(free), Size(n), Size(keep))
	}
	return nil
}

// OnSameDisk reports whether the path, or the directory that it will be made in, is on the
// disk of dir. It reports false where that cannot be found out.
func OnSameDisk(dir, path string) bool {
	for {
		info, err := os.Stat(path)
		if err == nil {
			other, err := os.Stat(dir)
			return err == nil && sameDevice(info, other)
		}
		parent := filepath.Dir(path)
		if !errors.Is(err, fs.ErrNotExist) || parent == path {
			return false
		}
		path = parent
	}
}
