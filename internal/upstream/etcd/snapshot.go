package etcd

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"
)

// Upstream fact: the format of a snapshot
//
// Mirrors: go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc.maintenanceServer.Snapshot
//   go.etcd.io/etcd/server/v3/etcdserver/api/v3client.New
//   go.etcd.io/etcd/etcdutl/v3/snapshot.v3Manager.saveDB
//   go.etcd.io/etcd/etcdutl/v3/snapshot.v3Manager.modifyLatestRevision
// Why: the in-process client's snapshot ends with an error, because it has no
//   stream. The restore of etcd expects the SHA-256 sum behind the database.
// Gain: backups without a port.
// Breaks: a backup cannot be restored. The restore checks the sum, and the tests
//   of internal/backup restore. TestRestoreIntoANewDirectory fails.

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
