package storage

import (
	"context"
	"errors"
	"net/http"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// explained turns etcd's refusal to write, of which clients would see
// "etcdserver: mvcc: database space exceeded" as an internal error, into an
// answer that says what to do. All writes of the API servers are transactions.
type explained struct {
	clientv3.KV
	refusal func() string
}

// Txn implements [clientv3.KV].
func (e explained) Txn(ctx context.Context) clientv3.Txn {
	return &explainedTxn{e.KV.Txn(ctx), e.refusal}
}

type explainedTxn struct {
	clientv3.Txn
	refusal func() string
}

// If implements [clientv3.Txn].
func (t *explainedTxn) If(comparisons ...clientv3.Cmp) clientv3.Txn {
	t.Txn = t.Txn.If(comparisons...)
	return t
}

// Then implements [clientv3.Txn].
func (t *explainedTxn) Then(operations ...clientv3.Op) clientv3.Txn {
	t.Txn = t.Txn.Then(operations...)
	return t
}

// Else implements [clientv3.Txn].
func (t *explainedTxn) Else(operations ...clientv3.Op) clientv3.Txn {
	t.Txn = t.Txn.Else(operations...)
	return t
}

// Commit implements [clientv3.Txn].
func (t *explainedTxn) Commit() (*clientv3.TxnResponse, error) {
	response, err := t.Txn.Commit()
	return response, explain(err, t.refusal)
}

// explainedLease does the same for the leases of events.
type explainedLease struct {
	clientv3.Lease
	refusal func() string
}

// Grant implements [clientv3.Lease].
func (e explainedLease) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	response, err := e.Lease.Grant(ctx, ttl)
	return response, explain(err, e.refusal)
}

func explain(err error, refusal func() string) error {
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		return err
	}
	message := "etcd's database is full: it reads and deletes, and refuses other writes; delete objects, or raise the quota of etcd"
	if refusal != nil && refusal() != "" {
		message = refusal()
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Reason: ReasonInsufficientStorage, Message: message,
	}}
}

// ReasonInsufficientStorage is the reason of a write that was refused for want
// of room. Upstream has none for it.
const ReasonInsufficientStorage metav1.StatusReason = "InsufficientStorage"
