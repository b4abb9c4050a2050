package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/datadir"

	etcdfiles "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

// Sizes returns the size of the database file, the part of it that is in use, and the
// configured quota, in bytes. The caller refuses writes at the quota.
func (m *Member) Sizes() (size, inUse, quota int64) {
	backend := m.etcd.Server.Backend()
	return backend.Size(), backend.SizeInUse(), m.config.QuotaBytes
}

// Revision returns the revision of the last write.
func (m *Member) Revision() int64 { return m.etcd.Server.KV().Rev() }

// NoSpace reports whether etcd's NOSPACE alarm is raised: etcd then serves reads and
// deletions and refuses other writes. The alarm is stored: a restart does not clear it.
func (m *Member) NoSpace() bool {
	for _, alarm := range m.etcd.Server.Alarms() {
		if alarm.Alarm == etcdserverpb.AlarmType_NOSPACE {
			return true
		}
	}
	return false
}

// SetNoSpace raises or clears the alarm.
func (m *Member) SetNoSpace(ctx context.Context, raised bool) error {
	request := &etcdserverpb.AlarmRequest{MemberID: uint64(m.etcd.Server.MemberID()),
		Alarm: etcdserverpb.AlarmType_NOSPACE}
	request.Action = etcdserverpb.AlarmRequest_DEACTIVATE
	if raised {
		request.Action = etcdserverpb.AlarmRequest_ACTIVATE
	}
	if _, err := m.etcd.Server.Alarm(ctx, request); err != nil {
		return fmt.Errorf("set etcd's alarm: %w", err)
	}
	return nil
}

// Compact removes the history of the objects and returns when its pages are free.
func (m *Member) Compact(ctx context.Context) error {
	_, err := m.client.Compact(ctx, m.Revision(), clientv3.WithCompactPhysical())
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compact etcd's history: %w", err)
	}
	return nil
}

// Defragment rewrites the database without its free pages. Reads and writes block
// between hold and release. It needs room on the disk for a copy of the part in use.
// It first waits until no snapshot is read: that would lengthen the time during which
// requests block.
func (m *Member) Defragment(ctx context.Context, hold func() (release func())) error {
	if err := m.takeTurn(ctx); err != nil {
		return fmt.Errorf("defragment etcd's database: %w", err)
	}
	defer m.turn.Release(1)
	defer hold()()
	if err := m.etcd.Server.Backend().Defrag(); err != nil {
		return fmt.Errorf("defragment etcd's database: %w", err)
	}
	return nil
}

// takeTurn waits until no other goroutine makes a snapshot or defragments.
func (m *Member) takeTurn(ctx context.Context) error {
	if m.turn.Acquire(ctx, 1) != nil {
		return fmt.Errorf("wait for a snapshot or a defragmentation to end: %w", context.Cause(ctx))
	}
	return nil
}

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
