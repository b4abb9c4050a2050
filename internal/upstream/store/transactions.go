package store

import (
	"context"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Upstream fact: all writes of the API servers are transactions
//
// Mirrors: go.etcd.io/etcd/client/v3/kubernetes.Client.OptimisticPut
//   go.etcd.io/etcd/client/v3/kubernetes.Client.OptimisticDelete
//   k8s.io/apiserver/pkg/storage/etcd3.Compact
//   go.etcd.io/etcd/server/v3/etcdserver/apply.applierV3Capped
//   go.etcd.io/etcd/server/v3/etcdserver/apply.applierV3Capped.Txn
// Why: writes wait during a defragmentation, which would let them time out, and are
//   refused with the remedy while there is no room. etcd itself takes deletions then,
//   which make room.
// Gain: no write is lost or times out during a defragmentation, and a client of a full
//   database gets 507 with the remedy.
// Breaks: writes of another form are not held, and time out. TestWritesAreTransactions
//   fails.

// BeginWrite is called before a write with its context, and returns the function to call
// afterwards. puts are the operations that may put keys.
type BeginWrite func(ctx context.Context, puts []clientv3.Op) (end func(), err error)

// GuardTransactions returns a KV whose transactions call begin before they are committed.
// explain replaces the error of a transaction.
func GuardTransactions(kv clientv3.KV, begin BeginWrite, explain func(error) error) clientv3.KV {
	return guardedKV{kv, begin, explain}
}

type guardedKV struct {
	clientv3.KV
	begin   BeginWrite
	explain func(error) error
}

// Txn implements [clientv3.KV].
func (g guardedKV) Txn(ctx context.Context) clientv3.Txn {
	return &guardedTxn{Txn: g.KV.Txn(ctx), ctx: ctx, kv: g}
}

type guardedTxn struct {
	clientv3.Txn
	ctx  context.Context
	kv   guardedKV
	puts []clientv3.Op
}

// If implements [clientv3.Txn].
func (t *guardedTxn) If(comparisons ...clientv3.Cmp) clientv3.Txn {
	t.Txn = t.Txn.If(comparisons...)
	return t
}

// Then implements [clientv3.Txn].
func (t *guardedTxn) Then(operations ...clientv3.Op) clientv3.Txn {
	t.Txn = t.Txn.Then(operations...)
	t.puts = append(t.puts, slices.DeleteFunc(slices.Clone(operations), func(o clientv3.Op) bool { return !o.IsPut() })...)
	return t
}

// Else implements [clientv3.Txn].
func (t *guardedTxn) Else(operations ...clientv3.Op) clientv3.Txn {
	t.Txn = t.Txn.Else(operations...)
	t.puts = append(t.puts, slices.DeleteFunc(slices.Clone(operations), func(o clientv3.Op) bool { return !o.IsPut() })...)
	return t
}

// Commit implements [clientv3.Txn].
func (t *guardedTxn) Commit() (*clientv3.TxnResponse, error) {
	end, err := t.kv.begin(t.ctx, t.puts)
	if err != nil {
		return nil, err
	}
	defer end()
	response, err := t.Txn.Commit()
	return response, t.kv.explain(err)
}
