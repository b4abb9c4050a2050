package storage

import (
	"context"
	"errors"
	"net/http"
	"slices"

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
	return &patientTxn{Txn: p.KV.Txn(ctx), connection: p.connection}
}

type patientTxn struct {
	clientv3.Txn
	connection *Connection
	puts       bool
}

// If implements [clientv3.Txn].
func (t *patientTxn) If(comparisons ...clientv3.Cmp) clientv3.Txn {
	t.Txn = t.Txn.If(comparisons...)
	return t
}

// Then implements [clientv3.Txn].
func (t *patientTxn) Then(operations ...clientv3.Op) clientv3.Txn {
	t.Txn = t.Txn.Then(operations...)
	t.puts = t.puts || slices.ContainsFunc(operations, clientv3.Op.IsPut)
	return t
}

// Else implements [clientv3.Txn].
func (t *patientTxn) Else(operations ...clientv3.Op) clientv3.Txn {
	t.Txn = t.Txn.Else(operations...)
	t.puts = t.puts || slices.ContainsFunc(operations, clientv3.Op.IsPut)
	return t
}

// Commit implements [clientv3.Txn].
func (t *patientTxn) Commit() (*clientv3.TxnResponse, error) {
	leave, err := t.connection.enter(t.puts)
	if err != nil {
		return nil, err
	}
	defer leave()
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
	leave, err := p.connection.enter(true)
	if err != nil {
		return nil, err
	}
	defer leave()
	response, err := p.Lease.Grant(ctx, ttl)
	return response, p.connection.explain(err)
}

func (c *Connection) enter(puts bool) (leave func(), err error) {
	if c.Enter == nil {
		return func() {}, nil
	}
	if leave, err = c.Enter(puts); err != nil {
		return nil, noRoom(err.Error())
	}
	return leave, nil
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
	return noRoom(message)
}

func noRoom(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Reason: ReasonInsufficientStorage, Message: message,
	}}
}
