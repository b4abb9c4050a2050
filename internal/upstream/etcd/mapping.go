package etcd

import "go.etcd.io/etcd/server/v3/storage/backend"

// Upstream fact: the database stays mapped while a transaction reads
//
// Mirrors: go.etcd.io/etcd/server/v3/storage/backend.readTx.RLock
//   go.etcd.io/etcd/server/v3/storage/backend.batchTxBuffered.commit
//   go.etcd.io/etcd/server/v3/storage/backend.batchTxBuffered.unsafeCommit
//   go.etcd.io/etcd/server/v3/storage/backend.backend.defrag
//   go.etcd.io/bbolt.DB.mmap
//   go.etcd.io/bbolt.DB.beginTx
//   go.etcd.io/bbolt.DB.removeTx
//   go.etcd.io/bbolt.mmap
// Why: bbolt maps the database into memory, where each page that was read stays
//   resident, and maps it elsewhere when it grows. No exported function reports when.
// Gain: 2,452 CRDs that were read leave no pages in the resident memory.
// Breaks: memory of something else at the address of the former mapping is released:
//   the process would lose data. etcd maps 10 GB at once, so that only a larger database
//   and a defragmentation map it again. TestReleasePages fails.

// WhileMapped calls use while the mapping of the database does not change. Writes wait
// meanwhile.
func WhileMapped(b backend.Backend, use func() error) error {
	tx := b.ReadTx()
	tx.RLock()
	defer tx.RUnlock()
	return use()
}
