package etcd

import (
	"fmt"
	"reflect"
	"sync"

	"go.etcd.io/etcd/server/v3/etcdserver"
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
// Breaks: that memory comes back. TestSlowTicks fails.

// logBuffer is the size of the buffer, in bytes: most records have less.
const logBuffer = 16 << 10

// ShrinkLogBuffer replaces the buffer of a member that has started. The next file of the log
// has one of 1 MB again.
func ShrinkLogBuffer(server *etcdserver.EtcdServer) error {
	log, err := fieldOf(reflect.ValueOf(server), "r", "storage", "w")
	if err != nil {
		return err
	}
	mu, err := fieldOf(log, "mu")
	if err != nil {
		return err
	}
	lock := (*sync.Mutex)(mu.Addr().UnsafePointer())
	lock.Lock()
	defer lock.Unlock()
	buffer, err := fieldOf(log, "encoder", "buf")
	if err != nil {
		return err
	}
	*(*[]byte)(buffer.Addr().UnsafePointer()) = make([]byte, logBuffer)
	return nil
}

// fieldOf follows the names of fields through pointers and interfaces.
func fieldOf(value reflect.Value, names ...string) (reflect.Value, error) {
	for _, name := range names {
		for value.Kind() == reflect.Pointer || value.Kind() == reflect.Interface {
			value = value.Elem()
		}
		if value.Kind() != reflect.Struct || !value.FieldByName(name).IsValid() {
			return value, fmt.Errorf("this version of etcd has no %s where it was", name)
		}
		value = value.FieldByName(name)
	}
	return value, nil
}
