package etcd

import (
	"errors"
	"strings"
	"syscall"
)

// Upstream fact: errors of etcd are texts
//
// Mirrors: go.etcd.io/etcd/server/v3/storage/wal.filePipeline.alloc
//   go.etcd.io/etcd/server/v3/storage/backend.batchTx.commit
//   go.uber.org/zap/zapcore.encodeError
// Why: a member that cannot write says so in a fatal line of its log, which has the text of
//   the cause only.
// Gain: a run in a temporary directory whose disk is full ends with the name of the
//   directory and a remedy, also when its files are gone by then.
// Breaks: the error is that of etcd, without a remedy. Tests: TestIsFullDisk,
//   TestFullDirectoryIsNamed.

// IsFullDisk reports whether an error, or its text, is that of a write to a file in dir for
// which the disk has no room.
func IsFullDisk(err error, dir string) bool {
	text := err.Error()
	return (errors.Is(err, syscall.ENOSPC) || strings.Contains(text, syscall.ENOSPC.Error())) && strings.Contains(text, dir)
}
