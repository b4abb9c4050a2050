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
	return stream(ctx, m.etcd.Server.Backend().Snapshot(), m.giveTurn), nil
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
