package etcd

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
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
//   of internal/backup restore.

// Snapshot streams the database as it is now, followed by its SHA-256 sum, as
// etcd's Maintenance.Snapshot does and RestoreSnapshot expects. It does not use the
// in-process client, whose streams end with an error. Until the stream has been read
// or closed, the database does not reuse free pages.
func (m *Member) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	if err := m.takeTurn(ctx); err != nil {
		return nil, err
	}
	snapshot := m.etcd.Server.Backend().Snapshot()
	reader, writer := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = writer.CloseWithError(context.Cause(ctx)) }) // never fails
	go func() {
		defer m.giveTurn()
		defer stop()
		sum := sha256.New()
		_, err := snapshot.WriteTo(io.MultiWriter(writer, sum))
		if err == nil {
			_, err = writer.Write(sum.Sum(nil))
		}
		if err = errors.Join(err, snapshot.Close()); err != nil {
			err = fmt.Errorf("read etcd's database: %w", err)
		}
		_ = writer.CloseWithError(err) // never fails; nil is the end
	}()
	return reader, nil
}
