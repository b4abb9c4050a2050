package etcd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Upstream fact: errors of etcd and of kine are texts
//
// Mirrors: go.etcd.io/etcd/server/v3/storage/wal.filePipeline.alloc
//   go.etcd.io/etcd/server/v3/storage/backend.batchTx.commit
//   go.uber.org/zap/zapcore.encodeError
//   go.etcd.io/etcd/client/v3.maintenance.Snapshot
//   go.etcd.io/etcd/client/v3.maintenance.logAndCloseWithError
// Why: a member that cannot write says so in a fatal line of its log, which has the text of
//   the cause only. A store without snapshots refuses one in place of its first part; kine
//   has no code for it, only the text "not supported".
// Gain: a run in a temporary directory whose disk is full ends with the name of the
//   directory and a remedy, also when its files are gone by then; a backup says what kine
//   cannot do, and the remedy.
// Breaks: the error is that of etcd or of the store, without a remedy. Tests:
//   TestIsFullDisk, TestFullDirectoryIsNamed, TestSnapshotReader, TestKine.

// IsFullDisk reports whether an error, or its text, is that of a write to a file in dir for
// which the disk has no room.
func IsFullDisk(err error, dir string) bool {
	text := err.Error()
	return (errors.Is(err, syscall.ENOSPC) || strings.Contains(text, syscall.ENOSPC.Error())) &&
		strings.Contains(text, dir)
}

// SnapshotReader reads a snapshot that etcd's client has begun. It waits for the first part.
// The error is [errors.ErrUnsupported] if the store has no snapshots. Other errors come
// from the reader.
func SnapshotReader(stream io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(stream)
	_, err := buffered.Peek(1)
	if err != nil && (status.Code(err) == codes.Unimplemented || strings.Contains(err.Error(), "not supported")) {
		return nil, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return buffered, nil
}
