package storage

import (
	"context"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// recordedGate records the bytes of the last write.
type recordedGate struct {
	Gate
	bytes int64
}

func (r *recordedGate) BeginWrite(_ context.Context, bytes int64) (func(), error) {
	r.bytes = bytes
	return func() {}, nil
}

// committed takes transactions.
type committed struct{ clientv3.KV }

func (committed) Txn(context.Context) clientv3.Txn { return committedTxn{} }

type committedTxn struct{ clientv3.Txn }

func (t committedTxn) Then(...clientv3.Op) clientv3.Txn     { return t }
func (committedTxn) Commit() (*clientv3.TxnResponse, error) { return &clientv3.TxnResponse{}, nil }

// TestDeletionsThatWrite: the gate can tell a deletion that stores its time from other writes.
func TestDeletionsThatWrite(t *testing.T) {
	for verb, want := range map[string]int64{"update": 3, "delete": -3, "deletecollection": -3} {
		gate := &recordedGate{}
		kv := (&Connection{Gate: gate}).gated(committed{})
		ctx := request.WithRequestInfo(t.Context(), &request.RequestInfo{Verb: verb})
		if _, err := kv.Txn(ctx).Then(clientv3.OpPut("/a", "x")).Commit(); err != nil || gate.bytes != want {
			t.Errorf("the gate of a %s has %d bytes: %v", verb, gate.bytes, err)
		}
	}
}

// TestFullExternalEtcd: the error says which deletions are refused, too.
func TestFullExternalEtcd(t *testing.T) {
	if err := (&Connection{}).explain(rpctypes.ErrNoSpace); !strings.Contains(err.Error(), "finalizers cannot be deleted") {
		t.Error(err)
	}
}
