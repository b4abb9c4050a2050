package etcd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/datadir"

	etcdfiles "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

const (
	// logFiles is the number of log files that are kept after a snapshot.
	logFiles = 1
	// maxLogFiles is the number of log files above which a snapshot is made before it is due:
	// a start reads them into memory.
	maxLogFiles = 16 << 20 / logFile
)

// logFilesIn returns the paths of the files of the log, the oldest first: their names sort by
// sequence.
func logFilesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(datadir.ToWALDir(dir))
	if err != nil {
		return nil, fmt.Errorf("list the files of etcd's log: %w", err)
	}
	var files []string
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) == ".wal" {
			files = append(files, filepath.Join(datadir.ToWALDir(dir), entry.Name()))
		}
	}
	return files, nil
}

// TrimLog removes the files of the log that a start does not need, and has etcd make a
// snapshot, which leaves one, when there are many. Call it often.
func (m *Member) TrimLog() error {
	files, err := logFilesIn(m.config.Dir)
	if err != nil {
		return err
	}
	for len(files) > logFiles {
		file, err := fileutil.TryLockFile(files[0], os.O_WRONLY, fileutil.PrivateFileMode)
		if errors.Is(err, fileutil.ErrLocked) {
			break // etcd needs it and the later ones
		}
		if err == nil {
			err = errors.Join(os.Remove(files[0]), file.Close())
		}
		if err != nil {
			return fmt.Errorf("remove an old file of etcd's log: %w", err)
		}
		files = files[1:]
	}
	if len(files) > maxLogFiles {
		etcdfiles.ForceSnapshot(m.etcd.Server)
	}
	return nil
}
