package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	etcddatadir "go.etcd.io/etcd/server/v3/storage/datadir"
	"go.uber.org/zap"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// StoppedSize returns what the disk has, in bytes, of the data of a member that is not running.
func StoppedSize(dir string) (int64, error) {
	size, err := datadir.TreeSize(dir)
	if err != nil {
		return 0, fmt.Errorf("read the size of etcd's data: %w", err)
	}
	return size, nil
}

// SnapshotStopped is [Member.Snapshot] of a member that is not running. It does not
// change its data, which the etcd of another release may have written. If the database
// lacks entries of the log, as after a crash, it starts a member on a copy below
// scratch, which applies them. Closing the stream removes the copy.
func SnapshotStopped(ctx context.Context, dir, scratch string, logger *zap.Logger) (io.ReadCloser, error) {
	if err := Verify(ctx, dir); err != nil {
		return nil, fmt.Errorf("snapshot etcd: %w", err)
	}
	applied, err := appliedIndex(DatabaseFile(dir))
	if err != nil {
		return nil, fmt.Errorf("snapshot etcd: %w", err)
	}
	logged, err := lastLogged(etcddatadir.ToWALDir(dir))
	if err != nil {
		return nil, fmt.Errorf("snapshot etcd: %w", err)
	}
	if logged <= applied {
		file, err := os.Open(DatabaseFile(dir))
		if err != nil {
			return nil, fmt.Errorf("snapshot etcd: %w", err)
		}
		return stream(ctx, file, func() {}), nil
	}
	return snapshotCopy(ctx, dir, scratch, logger)
}

// snapshotCopy starts a member on a copy and returns its snapshot.
func snapshotCopy(ctx context.Context, dir, scratch string, logger *zap.Logger) (stream io.ReadCloser, err error) {
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return nil, fmt.Errorf("copy etcd's data: %w", err)
	}
	to, err := os.MkdirTemp(scratch, "etcd-")
	if err != nil {
		return nil, fmt.Errorf("copy etcd's data: %w", err)
	}
	copied := &copiedMember{dir: to, closed: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, copied.Close())
		}
	}()
	if err := datadir.CopyTree(ctx, etcddatadir.ToMemberDir(dir), etcddatadir.ToMemberDir(to)); err != nil {
		close(copied.closed)
		return nil, fmt.Errorf("copy etcd's data: %w", err)
	}
	member, stop, err := Start(ctx, Config{Dir: to, Fsync: true, Logger: logger, Closed: func() { close(copied.closed) }})
	if err != nil {
		return nil, fmt.Errorf("complete a copy of etcd's data: %w", err)
	}
	copied.member, copied.stop = member, stop
	if err := member.WaitReady(ctx); err != nil {
		return nil, fmt.Errorf("complete a copy of etcd's data: %w", err)
	}
	if copied.ReadCloser, err = member.Snapshot(ctx); err != nil {
		return nil, err
	}
	return copied, nil
}

// copiedMember is the snapshot of a member on a copy. Close stops the member and removes
// the copy. For a member that was stopped while etcd opened the copy, it waits for etcd at
// most for [datadir.RemovalTimeout].
type copiedMember struct {
	io.ReadCloser
	member *Member
	stop   func() error  // nil if no member was started
	closed chan struct{} // closed when no etcd uses dir
	dir    string
}

// Close implements io.Closer.
func (c *copiedMember) Close() error {
	var errs []error
	if c.ReadCloser != nil {
		errs = append(errs, c.ReadCloser.Close())
	}
	if c.stop != nil {
		errs = append(errs, c.stop())
	}
	select {
	case <-c.closed:
	case <-time.After(datadir.RemovalTimeout): // what etcd makes meanwhile is removed by the next start
	}
	return errors.Join(append(errs, os.RemoveAll(c.dir))...)
}
