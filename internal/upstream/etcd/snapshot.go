package etcd

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"os"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// Upstream fact: the format of a snapshot, and its revision
//
// Mirrors: go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc.maintenanceServer.Snapshot
//   go.etcd.io/etcd/server/v3/etcdserver/api/v3client.New
//   go.etcd.io/etcd/etcdutl/v3/snapshot.v3Manager.saveDB
//   go.etcd.io/etcd/etcdutl/v3/snapshot.v3Manager.modifyLatestRevision
//   go.etcd.io/etcd/server/v3/storage/mvcc.UnsafeSetScheduledCompact
//   go.etcd.io/etcd/server/v3/storage/mvcc.UnsafeReadScheduledCompact
// Why: the in-process client's snapshot ends with an error, because it has no stream. The
//   restore of etcd expects the SHA-256 sum behind the database. The revision of a database
//   is that of its last record, unless a compaction has removed that record, which was a
//   deletion.
// Gain: backups without a port; a snapshot of a member that lags behind is distinguished
//   from a compacted one.
// Breaks: a backup cannot be restored, or a base of the journal is refused as
//   that of a member that lags behind. TestRestoreIntoANewDirectory and
//   TestCompactedSnapshot fail.

// WriteSnapshot writes a database, followed by its SHA-256 sum, as etcd's
// Maintenance.Snapshot does.
func WriteSnapshot(w io.Writer, database io.WriterTo) error {
	sum := sha256.New()
	if _, err := database.WriteTo(io.MultiWriter(w, sum)); err != nil {
		return err
	}
	_, err := w.Write(sum.Sum(nil))
	return err
}

// RemoveSum makes a snapshot in a file a database: it removes the sum.
func RemoveSum(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	const pageMultiple = 512 // of the size of a database
	if info.Size()%pageMultiple != sha256.Size {
		return errors.New("the snapshot does not end with its sum")
	}
	return os.Truncate(path, info.Size()-sha256.Size)
}

// AddSum makes a database in a file a snapshot, and syncs the file.
func AddSum(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	sum := sha256.New()
	if _, err = io.Copy(sum, file); err == nil {
		_, err = file.Write(sum.Sum(nil))
	}
	return errors.Join(err, file.Sync(), file.Close())
}

// CompactedRevision returns the revision up to which the database was compacted, 0
// without one. It had that revision at the time.
func CompactedRevision(tx *bolt.Tx) int64 {
	meta := tx.Bucket(schema.Meta.Name())
	if meta == nil {
		return 0
	}
	value := meta.Get(schema.ScheduledCompactKeyName)
	if len(value) < 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(value))
}
