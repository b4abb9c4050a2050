package etcd

import (
	"encoding/binary"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// Upstream fact: where etcd's database has the revision of the last compaction
//
// Mirrors: go.etcd.io/etcd/server/v3/storage/mvcc.UnsafeSetScheduledCompact
//   go.etcd.io/etcd/server/v3/storage/mvcc.UnsafeReadScheduledCompact
// Why: the revision of a database is that of its last record, unless a compaction has
//   removed that record, which was a deletion.
// Gain: a snapshot of a member that lags behind is distinguished from a compacted one.
// Breaks: the revision of a snapshot is too low, and a base of the journal
//   is refused as that of a member that lags behind. TestCompactedSnapshot fails.

// CompactedRevision returns the revision up to which the database was compacted, 0
// without one. It had that revision at the time.
func CompactedRevision(tx *bolt.Tx) int64 {
	meta := tx.Bucket(schema.Meta.Name())
	if meta == nil {
		return 0
	}
	value := meta.Get(schema.ScheduledCompactKeyName)
	if len(value) < 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(value))
}
