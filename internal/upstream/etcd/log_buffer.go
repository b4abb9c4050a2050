package etcd

import (
	"sync"

	"go.etcd.io/etcd/server/v3/etcdserver"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream"
)

// Upstream fact: the log of a member has a buffer of 1 MB
//
// Mirrors: go.etcd.io/etcd/server/v3/storage/wal.newEncoder
//   go.etcd.io/etcd/server/v3/storage/wal.encoder.encode
//   go.etcd.io/etcd/server/v3/storage/wal.WAL
//   go.etcd.io/etcd/server/v3/storage.storage
//   go.etcd.io/etcd/server/v3/etcdserver.raftNodeConfig
// Why: the buffer is for records that fit. Larger ones are encoded elsewhere. Its size is no
//   setting.
// Gain: 1 MB of live heap of a further server in a process, of 9 MB (bench, library; trial).
// Breaks: that memory comes back. TestElect fails.

// logBuffer is the size of the buffer, in bytes: most records have less.
const logBuffer = 16 << 10

// ShrinkLogBuffer replaces the buffer of a member that has started. The next file of the log
// has one of 1 MB again.
func ShrinkLogBuffer(server *etcdserver.EtcdServer) error {
	lock, err := upstream.Field[sync.Mutex](server, "r", "storage", "w", "mu")
	if err != nil {
		return err
	}
	lock.Lock()
	defer lock.Unlock()
	buffer, err := upstream.Field[[]byte](server, "r", "storage", "w", "encoder", "buf")
	if err == nil {
		*buffer = make([]byte, logBuffer)
	}
	return err
}
