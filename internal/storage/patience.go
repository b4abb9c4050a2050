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

// patientKV waits while the store is busy, and turns its refusal to write, of
// which clients would see "etcdserver: mvcc: database space exceeded" as an
// internal error, into an answer that says what to do. All writes of the API
// servers are transactions.
type patientKV struct {
	clientv3.KV
	connection *Connection
}

// Txn implements [clientv3.KV].
func (p patientKV) Txn(ctx context.Context) clientv3.Txn {
	return &patientTxn{p.KV.Txn(ctx), p.connection}
}

type patientTxn struct {
	clientv3.Txn
	connection *Connection
}

// If implements [clientv3.Txn].
func (t *patientTxn) If(comparisons ...clientv3.Cmp) clientv3.Txn {
	t.Txn = t.Txn.If(comparisons...)
	return t
}

// Then implements [clientv3.Txn].
func (t *patientTxn) Then(operations ...clientv3.Op) clientv3.Txn {
	t.Txn = t.Txn.Then(operations...)
	return t
}

// Else implements [clientv3.Txn].
func (t *patientTxn) Else(operations ...clientv3.Op) clientv3.Txn {
	t.Txn = t.Txn.Else(operations...)
	return t
}

// Commit implements [clientv3.Txn].
func (t *patientTxn) Commit() (*clientv3.TxnResponse, error) {
	defer t.connection.enter()()
	response, err := t.Txn.Commit()
	return response, t.connection.explain(err)
}

// patientLease does the same for the leases of events.
type patientLease struct {
	clientv3.Lease
	connection *Connection
}

// Grant implements [clientv3.Lease].
func (p patientLease) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	defer p.connection.enter()()
	response, err := p.Lease.Grant(ctx, ttl)
	return response, p.connection.explain(err)
}

func (c *Connection) enter() (leave func()) {
	if c.Enter == nil {
		return func() {}
	}
	return c.Enter()
}

// ReasonInsufficientStorage is the reason of a write that was refused for want
// of room. Upstream has none for it.
const ReasonInsufficientStorage metav1.StatusReason = "InsufficientStorage"

func (c *Connection) explain(err error) error {
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		return err
	}
	message := "etcd's database is full: it reads and deletes, and refuses other writes; delete objects, or raise the quota of etcd"
	if c.Refusal != nil && c.Refusal() != "" {
		message = c.Refusal()
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Reason: ReasonInsufficientStorage, Message: message,
	}}
}
