package etcd

import "go.etcd.io/etcd/server/v3/etcdserver"

// Upstream fact: when etcd makes a snapshot, and removes its log
//
// Mirrors: go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.ForceSnapshot
//   go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.shouldSnapshotToDisk
//   go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.purgeFile
//   go.etcd.io/etcd/server/v3/storage/wal.WAL.ReleaseLockTo
//   go.etcd.io/etcd/client/pkg/v3/fileutil.PurgeFile
// Why: snapshots come after a number of entries, whose size differs by 1,000. A start reads
//   all entries since the last one into memory. etcd removes old files of the log every 30 s,
//   in which it writes more than a gigabyte. A file that it needs is locked.
// Gain: with objects of 1 MiB a start reads at most 20 MiB of log instead of 1 GiB, and the
//   log takes as much of a disk.
// Breaks: the log grows until 1,000 entries were written. TestLogOfLargeValues fails.

// ForceSnapshot makes the member write a snapshot after its next entry. etcd sets the same
// flag from the goroutine that reads it; another one may set it late or, while a snapshot is
// made, in vain. The caller repeats it.
//
//go:norace
func ForceSnapshot(server *etcdserver.EtcdServer) { server.ForceSnapshot() }
