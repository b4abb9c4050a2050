package storage

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// Gate regulates access to a store that this process maintains. Its methods are
// safe for concurrent use.
type Gate interface {
	// BeginWrite blocks while the database is defragmented: a write that reaches etcd
	// then times out after a few seconds, and may or may not be applied. A write that
	// puts keys, of so many bytes, gets an error with the remedy when there is no room. 0 is
	// a deletion, less than 0 one that puts: it stores the time from which finalizers hold the
	// object. The caller calls end when the write has ended. When ctx ends first, it
	// returns its error.
	BeginWrite(ctx context.Context, bytes int64) (end func(), err error)
	// Defragmenting reports whether reads and writes block at the moment. The store
	// is healthy then.
	Defragmenting() bool
	// Refusal returns why the store refuses writes at the moment and the remedy;
	// empty if it accepts them.
	Refusal() string
}

// GatedKV returns the KV that the API servers write with: a write blocks while the
// database is defragmented, and gets an error while the store refuses writes.
func (c *Connection) GatedKV() clientv3.KV { return c.gated(c.Client.KV) }

func (c *Connection) gated(kv clientv3.KV) clientv3.KV {
	return store.GuardTransactions(kv, func(ctx context.Context, puts []clientv3.Op) (func(), error) {
		bytes := 0
		for _, put := range puts {
			bytes += len(put.KeyBytes()) + len(put.ValueBytes())
		}
		if info, known := request.RequestInfoFrom(ctx); known && strings.HasPrefix(info.Verb, "delete") {
			bytes = -bytes
		}
		return c.beginWrite(ctx, int64(bytes))
	}, c.explain)
}

// gatedLease grants leases, with which events expire, as GatedKV writes.
type gatedLease struct {
	clientv3.Lease
	connection *Connection
}

// leaseBytes is what a lease takes.
const leaseBytes = 100

// Grant implements [clientv3.Lease].
func (l gatedLease) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	end, err := l.connection.beginWrite(ctx, leaseBytes)
	if err != nil {
		return nil, err
	}
	defer end()
	response, err := l.Lease.Grant(ctx, ttl)
	return response, l.connection.explain(err)
}

func (c *Connection) beginWrite(ctx context.Context, bytes int64) (end func(), err error) {
	if c.Gate == nil {
		return func() {}, nil
	}
	end, err = c.Gate.BeginWrite(ctx, bytes)
	switch {
	case err == nil:
		return end, nil
	case ctx.Err() != nil:
		return nil, err
	}
	return nil, noRoom(err.Error())
}

// ReasonInsufficientStorage is the reason in the Status of a write that was refused
// because etcd has no room. Kubernetes has no reason for it.
const ReasonInsufficientStorage metav1.StatusReason = "InsufficientStorage"

// explain turns NOSPACE of etcd, which clients would see as an internal error, into a
// Status with code 507 that names the remedy.
func (c *Connection) explain(err error) error {
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		return err
	}
	message := "the database of etcd is full: reads and deletions are served, other writes are refused (so " +
		"namespaces and objects with finalizers cannot be deleted); delete others, or raise the quota of etcd"
	if c.Gate != nil {
		message = cmp.Or(c.Gate.Refusal(), message)
	}
	return noRoom(message)
}

func noRoom(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Message: message,
		Code: http.StatusInsufficientStorage, Reason: ReasonInsufficientStorage,
	}}
}
