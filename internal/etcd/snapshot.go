package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	etcddatadir "go.etcd.io/etcd/server/v3/storage/datadir"
	"go.uber.org/zap"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	etcdfiles "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

// Snapshot streams the database as it is now, in the format that RestoreSnapshot reads.
// Until the stream has been read or closed, the database does not reuse free pages.
func (m *Member) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	if err := m.takeTurn(ctx); err != nil {
		return nil, err
	}
	return stream(ctx, m.etcd.Server.Backend().Snapshot(), func() { m.turn.Release(1) }), nil
}

// database is one that can be read at once.
type database interface {
	io.WriterTo
	io.Closer
}

// stream returns a reader of a database, followed by its sum. When all was read, the reader is
// closed or ctx has ended, it closes the database and calls done.
func stream(ctx context.Context, from database, done func()) io.ReadCloser {
	reader, writer := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = writer.CloseWithError(context.Cause(ctx)) }) // never fails
	go func() {
		defer done()
		defer stop()
		err := etcdfiles.WriteSnapshot(writer, from)
		if err = errors.Join(err, from.Close()); err != nil {
			err = fmt.Errorf("read etcd's database: %w", err)
		}
		_ = writer.CloseWithError(err) // never fails; nil is the end
	}()
	return reader
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

// minRevisionBump is what a restore adds to the revision if the clock is behind it.
// etcd's documentation recommends it for Kubernetes: it is enough for a million writes
// a minute during half a day.
const minRevisionBump = 1_000_000_000

// revisionBump returns what a restore at the time now adds to the revision of a snapshot.
// The new revision is the time in microseconds, and above that of the journal, whose servers
// may have had another clock. etcd writes less than once a microsecond:
// the new revision is above all that clients have seen, also after earlier restores of the
// same snapshot.
func revisionBump(revision, journaled int64, now time.Time) uint64 {
	if bump := max(now.UnixMicro(), journaled+minRevisionBump) - revision; bump > 0 {
		return uint64(bump)
	}
	return minRevisionBump
}

// RestoreSnapshot makes the member's directory dir, which must not exist, from a
// snapshot file. It checks the snapshot's hash. All revisions up to the new one
// are marked as compacted, so that clients with older watches list again instead of
// missing changes. The new one is above journaled, the last one that is known of other servers.
func RestoreSnapshot(file, dir string, journaled int64, logger *zap.Logger) error {
	manager := snapshot.NewV3(logger)
	status, err := manager.Status(file)
	if err != nil {
		return fmt.Errorf("read the revision of the snapshot of etcd: %w", err)
	}
	err = manager.Restore(snapshot.RestoreConfig{
		SnapshotPath:        file,
		Name:                etcdfiles.MemberName,
		OutputDataDir:       dir,
		PeerURLs:            []string{etcdfiles.Advertised},
		InitialCluster:      etcdfiles.MemberName + "=" + etcdfiles.Advertised,
		InitialClusterToken: "kube-hyper-mini",
		RevisionBump:        revisionBump(status.Revision, journaled, time.Now()),
		MarkCompacted:       true,
	})
	if err != nil {
		return fmt.Errorf("restore the snapshot of etcd: %w", err)
	}
	return nil
}
