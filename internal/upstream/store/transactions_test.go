package store

import (
	"context"
	"errors"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
)

// recordedKV takes transactions, and fails the test at other writes.
type recordedKV struct {
	clientv3.KV
	t *testing.T
}

func (r recordedKV) Put(context.Context, string, string, ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	r.t.Error("a put is not a transaction")
	return &clientv3.PutResponse{}, nil
}

func (r recordedKV) Delete(context.Context, string, ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	r.t.Error("a deletion is not a transaction")
	return &clientv3.DeleteResponse{}, nil
}

func (r recordedKV) Txn(context.Context) clientv3.Txn { return recordedTxn{} }

type recordedTxn struct{}

func (recordedTxn) If(...clientv3.Cmp) clientv3.Txn  { return recordedTxn{} }
func (recordedTxn) Then(...clientv3.Op) clientv3.Txn { return recordedTxn{} }
func (recordedTxn) Else(...clientv3.Op) clientv3.Txn { return recordedTxn{} }
func (recordedTxn) Commit() (*clientv3.TxnResponse, error) {
	return &clientv3.TxnResponse{Header: &pb.ResponseHeader{}, Succeeded: true}, nil
}

// TestWritesAreTransactions: what the stores of Kubernetes write passes the guard, which
// tells puts from deletions.
func TestWritesAreTransactions(t *testing.T) {
	var began []bool
	ended := 0
	begin := func(_ context.Context, puts []clientv3.Op) (func(), error) {
		began = append(began, len(puts) == 1 && string(puts[0].KeyBytes()) == "/a" && string(puts[0].ValueBytes()) == "x")
		return func() { ended++ }, nil
	}
	guarded := GuardTransactions(recordedKV{t: t}, begin, func(err error) error { return err })
	client := kubernetes.Client{Client: &clientv3.Client{KV: guarded}}
	if _, err := client.OptimisticPut(t.Context(), "/a", []byte("x"), 0, kubernetes.PutOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := client.OptimisticDelete(t.Context(), "/a", 1, kubernetes.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if len(began) != 2 || !began[0] || began[1] || ended != 2 {
		t.Errorf("the guard has seen %v, %d ended", began, ended)
	}
}

// TestRefusedTransaction: nothing is committed, and errors are replaced.
func TestRefusedTransaction(t *testing.T) {
	full, explained := errors.New("full"), errors.New("explained")
	guarded := GuardTransactions(recordedKV{t: t}, func(context.Context, []clientv3.Op) (func(), error) { return nil, full }, func(error) error { return explained })
	if _, err := guarded.Txn(t.Context()).Then(clientv3.OpPut("/a", "x")).Commit(); !errors.Is(err, full) {
		t.Errorf("a refused transaction: %v", err)
	}
	guarded = GuardTransactions(recordedKV{t: t}, func(context.Context, []clientv3.Op) (func(), error) { return func() {}, nil }, func(error) error { return explained })
	if _, err := guarded.Txn(t.Context()).Then(clientv3.OpPut("/a", "x")).Commit(); !errors.Is(err, explained) {
		t.Errorf("an explained error: %v", err)
	}
}
