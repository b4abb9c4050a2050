package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"

	etcdfiles "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

// Snapshot streams the database as it is now, in the format that RestoreSnapshot reads.
// Until the stream has been read or closed, the database does not reuse free pages.
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
		err := etcdfiles.WriteSnapshot(writer, snapshot)
		if err = errors.Join(err, snapshot.Close()); err != nil {
			err = fmt.Errorf("read etcd's database: %w", err)
		}
		_ = writer.CloseWithError(err) // never fails; nil is the end
	}()
	return reader, nil
}
