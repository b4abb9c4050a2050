package etcd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Upstream fact: errors of kine are texts
//
// Mirrors: go.etcd.io/etcd/client/v3.maintenance.Snapshot
//   go.etcd.io/etcd/client/v3.maintenance.logAndCloseWithError
// Why: a store without snapshots refuses one in place of its first part; kine has no code
//   for it, only the text "not supported".
// Gain: a backup says what kine cannot do, and the remedy.
// Breaks: the error is that of the store, without a remedy. Tests: TestSnapshotReader,
//   TestKine.

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
